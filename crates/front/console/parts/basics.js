// @ts-check
/** Small parts that every screen uses; long lists and texts, drawn as they come near to what is in sight; swipes. */

import { html, useEffect, useRef, useState } from '../lib/html.js';
import { notify } from '../lib/keys.js';
import { asApiError } from '../lib/live.js';
import { line, visible } from '../lib/text.js';

/** Foreign text on one line. @param {Props.Line} _ */
export const Line = ({ text, length = 160 }) => html`<bdi>${line(text, length)}</bdi>`;

/** Foreign text as it is. @param {Props.Text} _ */
export const Text = ({ text }) => html`<bdi>${visible(text)}</bdi>`;

/** The six words of `core::phase`, each with a form of its own. */
const PHASES = new Set(['queued', 'working', 'waiting for you', 'done', 'failed', 'stopped']);

/** @param {Props.Phase} _ */
export function Phase({ phase, quiet }) {
  if (!phase) return null;
  const form = PHASES.has(phase) ? phase.replaceAll(' ', '-') : 'other';
  return html`<span class="phase ${form}">
    <i class="dot" aria-hidden="true"></i><span class=${quiet ? 'spoken' : ''}>${line(phase, 40)}</span>
  </span>`;
}

/** @param {Props.Badge} _ */
export const Badge = ({ tone = '', children, title }) => html`<span class="badge ${tone}" title=${title}>${children}</span>`;

/** What a screen shows instead of rows. @param {Props.Empty} _ */
export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`;

/** Why rows could not be read, and what to do. @param {Props.Problem} _ */
export function Problem({ error, what, again }) {
  if (!error) return null;
  if (error.status === 404) {
    return html`<${Empty} title="Not in this daemon"><p>It has no ${what}. A newer codex-bridge may.</p><//>`;
  }
  if (error.status === 403) {
    return html`<${Empty} title="Not for this session">
      <p><${Text} text=${error.message} /></p>
      <p>A session from <code>codex-bridge console</code> may.</p><//>`;
  }
  return html`<div class="problem" role="alert">
    <p><strong>Couldn’t read ${what}:</strong> <${Text} text=${error.message} /></p>
    ${again && html`<button onClick=${again}>Try again</button>`}
  </div>`;
}

export const Loading = () => html`<p class="loading" role="status">Loading…</p>`;

/** A button that is busy while its act runs, and says when that failed. @param {Props.Act} _ */
export function Act({ act, done, tone = '', disabled, title, about, children }) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      await act();
      if (done) notify(done);
    } catch (error) {
      notify(asApiError(error).message, 'failed');
    } finally {
      setBusy(false);
    }
  };
  return html`<button class=${tone} disabled=${disabled || busy} aria-busy=${busy} aria-describedby=${about} title=${title} onClick=${run}>
    ${children}
  </button>`;
}

/** A dialog over the page; the browser keeps the focus in it and gives it back. @param {Props.Dialog} _ */
export function Dialog({ title, onClose, children, wide }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return html`<dialog ref=${ref} class=${wide ? 'wide' : ''} aria-labelledby="dialog-title" onCancel=${onClose} onClose=${onClose}
      onClick=${(event) => event.target === ref.current && onClose()}>
    <div class="dialog-body">
      <header><h2 id="dialog-title" tabindex="-1" autofocus>${title}</h2>
        <button class="plain" aria-label="Close" onClick=${onClose}>×</button></header>
      ${children}
    </div>
  </dialog>`;
}

/** Asks again before something that can't be taken back. Nothing is confirmed by Enter alone: the focus is elsewhere. @param {Props.Confirm} _ */
export function Confirm({ title, yes, act, onClose, tone = 'danger', children }) {
  return html`<${Dialog} title=${title} onClose=${onClose}>
    ${children}
    <div class="actions">
      <button onClick=${onClose}>Don’t</button>
      <${Act} tone=${tone} act=${async () => { await act(); onClose(); }}>${yes}<//>
    </div>
  <//>`;
}

/** Names and values. @param {Props.Facts} _ */
export const Facts = ({ rows }) => html`<dl class="facts">
  ${rows.filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false)
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
</dl>`;

/** The head of a screen. @param {Props.Head} _ */
export const Head = ({ title, sub, children }) => html`<header class="head">
  <div><h1 tabindex="-1">${title}</h1>${sub && html`<p class="sub">${sub}</p>`}</div>
  <div class="actions">${children}</div>
</header>`;

const [LINES_PER_PART, LINE_PX] = [120, 20];
const ROWS_PER_PART = 40;
/** How near: about a screen and a half. */
const NEAR = '1200px 0px';

/**
 * Calls back once the element is, or comes near to being, in sight.
 * @param {() => void} callback
 * @param {{ rootMargin?: string, off?: boolean }} [options]
 */
export function useInSight(callback, { rootMargin = '0px', off = false } = {}) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const element = ref.current;
    if (off || !element) return;
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) callback();
    }, { rootMargin });
    observer.observe(element);
    return () => observer.disconnect();
  }, [off, rootMargin]);
  return ref;
}

/** @param {Props.Part} _ */
function Part({ height, now, draw }) {
  const [near, setNear] = useState(now);
  const ref = useInSight(() => setNear(true), { rootMargin: NEAR, off: near });
  if (near) return draw();
  return html`<div ref=${ref} class="far" style=${{ height: `${height}px` }}></div>`;
}

/**
 * Rows of about the same height.
 * @template T
 * @param {{ rows: T[], height: number, id: (row: T) => string, draw: (row: T) => Child, label: string, class?: string }} props
 */
export function Rows({ rows, height, id, draw, label, class: name = '' }) {
  const parts = [];
  for (let from = 0; from < rows.length; from += ROWS_PER_PART) {
    const part = rows.slice(from, from + ROWS_PER_PART);
    parts.push(html`<${Part} key=${from} now=${from === 0} height=${part.length * height}
      draw=${() => part.map((row) => html`<div key=${id(row)} role="listitem">${draw(row)}</div>`)} />`);
  }
  return html`<div class="rows ${name}" role="list" aria-label=${label}>${parts}</div>`;
}

/** @param {string} line */
function diffClass(line) {
  if (line.startsWith('@@')) return 'hunk';
  if (line.startsWith('+')) return 'added';
  if (line.startsWith('-')) return 'removed';
  return '';
}

/** Neighbouring lines of one kind as one element. @param {string[]} lines */
function coloured(lines) {
  /** @type {Child[]} */
  const out = [];
  let from = 0;
  for (let at = 1; at <= lines.length; at += 1) {
    const kind = diffClass(lines[from] ?? '');
    if (at < lines.length && diffClass(lines[at] ?? '') === kind) continue;
    const text = lines.slice(from, at).join('\n');
    // Coloured lines are blocks: a line end between two of them would be an empty line.
    out.push(kind ? html`<span class=${kind}>${text}</span>` : html`<span class="same">${text}</span>`);
    from = at;
  }
  return out;
}

/** A text of any length, with the colours of a diff where it is one. It says when its end was in sight. @param {Props.LongText} _ */
export function LongText({ text, label, diff, onEnd }) {
  const end = useInSight(() => onEnd?.(), { off: !onEnd });
  const lines = text.trimEnd().split('\n');
  const parts = [];
  for (let from = 0; from < lines.length; from += LINES_PER_PART) {
    const part = lines.slice(from, from + LINES_PER_PART);
    const drawn = () => html`<pre>${diff ? coloured(part) : part.join('\n')}</pre>`;
    parts.push(html`<${Part} key=${from} now=${from === 0} height=${part.length * LINE_PX} draw=${drawn} />`);
  }
  return html`<div class="long" role="group" aria-label=${label} tabindex="0">
    ${parts}<i ref=${end} class="end" aria-hidden="true"></i>
  </div>`;
}

/** How far, as a part of the width. */
const FAR = 0.4;

/**
 * Attributes for the element that is swiped. While it is, `--swipe` says how far, and `data-swipe` what would happen.
 * @param {{ onRight?: () => void, onLeft?: () => void }} acts
 */
export function useSwipe({ onRight, onLeft }) {
  const start = useRef(/** @type {{ x: number, y: number, moves: boolean } | null} */ (null));

  /** @param {HTMLElement} element @param {number} by */
  const show = (element, by) => {
    element.style.setProperty('--swipe', `${by}px`);
    const act = Math.abs(by) < element.offsetWidth * FAR ? '' : by > 0 ? 'accept' : 'decline';
    element.dataset.swipe = act;
    return act;
  };
  /** @param {PointerEvent} event */
  const end = (event) => {
    const element = /** @type {HTMLElement} */ (event.currentTarget);
    const act = start.current?.moves && event.type === 'pointerup' ? element.dataset.swipe : '';
    start.current = null;
    element.classList.remove('swiping');
    show(element, 0);
    if (act === 'accept') onRight?.();
    if (act === 'decline') onLeft?.();
  };
  return {
    onPointerDown: (/** @type {PointerEvent} */ event) => {
      const inside = /** @type {Element} */ (event.target).closest('.long, button, input, textarea, a, summary');
      // Long texts scroll sideways themselves.
      const scrolls = inside?.classList.contains('long') && inside.scrollWidth > inside.clientWidth;
      if (event.pointerType === 'mouse' || (inside && (scrolls || !inside.classList.contains('long')))) return;
      start.current = { x: event.clientX, y: event.clientY, moves: false };
    },
    onPointerMove: (/** @type {PointerEvent} */ event) => {
      const from = start.current;
      if (!from) return;
      const [x, y] = [event.clientX - from.x, event.clientY - from.y];
      if (!from.moves && Math.abs(x) < 12) return;
      if (!from.moves && Math.abs(y) > Math.abs(x)) return void (start.current = null);
      const element = /** @type {HTMLElement} */ (event.currentTarget);
      if (!from.moves) {
        from.moves = true;
        element.classList.add('swiping');
        element.setPointerCapture(event.pointerId);
      }
      show(element, (x > 0 && !onRight) || (x < 0 && !onLeft) ? x / 6 : x);
    },
    onPointerUp: end,
    onPointerCancel: end,
  };
}
