// @ts-check
/** Long lists and texts: a part is drawn when it comes near to what is in sight, and stays. */

import { html, useEffect, useRef, useState } from '../lib/html.js';

/** @typedef {import('../../console-types/ui').Child} Child */

const LINES_PER_PART = 120;
const LINE_PX = 20;
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

/** @param {{ height: number, now: boolean, draw: () => Child }} props */
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

/**
 * A text of any length, with the colours of a diff where it is one. It says when its end was in sight.
 * @param {{ text: string, label: string, diff?: boolean, onEnd?: () => void }} props the text is shown as it is
 */
export function LongText({ text, label, diff, onEnd }) {
  const end = useInSight(() => onEnd?.(), { off: !onEnd });
  const lines = text.trimEnd().split('\n');
  const parts = [];
  for (let from = 0; from < lines.length; from += LINES_PER_PART) {
    const part = lines.slice(from, from + LINES_PER_PART);
    const drawn = () => html`<pre>${diff ? coloured(part) : part.join('\n')}</pre>`;
    parts.push(html`<${Part} key=${from} now=${from === 0} height=${part.length * LINE_PX} draw=${drawn} />`);
  }
  return html`<div class="long" role="region" aria-label=${label} tabindex="0">
    ${parts}<i ref=${end} class="end" aria-hidden="true"></i>
  </div>`;
}
