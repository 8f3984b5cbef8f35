// @ts-check
/** What every screen uses. Texts of Codex, senders and files are hostile: what can't be seen is written out as `<U+202E>`. */

import { asApiError } from './daemon.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from './html.js';

// Emoji keep their joiners; else controls, format characters, direction marks, tags, lone surrogates.
const HIDDEN = /(\p{Extended_Pictographic}\ufe0f?(?:\u200d\p{Extended_Pictographic}\ufe0f?)*)|[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;
// Colours and movements of the cursor.
const TERMINAL = /\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][A-Z0-9])/g;

export const visible = (text) => (text ?? '').replaceAll('\r\n', '\n')
  .replace(HIDDEN, (found, emoji) => emoji ?? `<U+${found.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}>`);

export const output = (text) => visible(text.replace(TERMINAL, ''));

export function line(text, length = 160) {
  const shown = visible((text ?? '').slice(0, length * 4).replace(/\s+/g, ' ').trim());
  return shown.length > length ? `${shown.slice(0, length - 1)}…` : shown;
}

export const short = (text, length = 160) => html`<bdi>${line(text, length)}</bdi>`;

export const full = (text) => html`<bdi>${visible(text)}</bdi>`;

export const counted = (count, one, many = `${one}s`) => `${count.toLocaleString()} ${count === 1 ? one : many}`;

export function bytes(count) {
  const power = Math.max(0, Math.min(4, Math.floor(Math.log2(count) / 10)));
  const value = count / 1024 ** power;
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value).toLocaleString()} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][power]}`;
}

/** `4 s`, `12 min`, `3 h 20 min`, `5 d`. */
export function span(ms) {
  if (ms > 0 && ms < 500) return `${Math.round(ms)} ms`;
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 && hours < 10 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d`;
}

const format = (options) => {
  const made = new Intl.DateTimeFormat(undefined, options);
  return (at) => made.format(new Date(at));
};
const moment = format({ dateStyle: 'medium', timeStyle: 'medium' });
const exact = format({ timeStyle: 'medium' });
const clock = format({ timeStyle: 'short' });
const day = format({ month: 'short', day: 'numeric' });

/** @type {Set<() => void>} */
const clocks = new Set();
setInterval(() => clocks.forEach((tick) => tick()), 1000);

export function useNow() {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const tick = () => setNow(Date.now());
    clocks.add(tick);
    return () => void clocks.delete(tick);
  }, []);
  return now;
}

const time = (at, words, urgent = false) => html`<time datetime=${at} title=${moment(at)} class=${urgent && 'urgent'}>${words}</time>`;

/** A moment: the time of today, else the day, with the whole in its title. */
export function when(at, words = clock) {
  if (Number.isNaN(Date.parse(at))) return null;
  const today = new Date(at).toDateString() === new Date().toDateString();
  return time(at, today || words === exact ? words(at) : `${day(at)}, ${words(at)}`);
}
export const exactly = (at) => when(at, exact);

export function Countdown({ at }) {
  const left = Date.parse(at) - useNow();
  return time(at, left > 0 ? `${span(left)} left` : 'out of time', left < 60_000);
}

export function Ago({ at }) {
  const past = useNow() - Date.parse(at);
  return time(at, past < 5000 ? 'just now' : `${span(past)} ago`);
}

/** @type {Map<object, KeyGroup>} */
const groups = new Map();
let prefix = '';

export const allBindings = () => [...Map.groupBy(groups.values(), ({ title }) => title)]
  .map(([title, some]) => ({ title, bindings: some.flatMap((group) => group.bindings) }));

/** @param {KeyGroup['bindings']} bindings */
export function useKeys(title, bindings) {
  // Before what it belongs to is painted: a key acts on what is seen.
  useLayoutEffect(() => {
    const owner = {};
    groups.set(owner, { title, bindings });
    return () => void groups.delete(owner);
  });
}

function onKey(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
  if (['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName)) {
    if (event.key === 'Escape') target.blur();
    return;
  }
  // A dialog has its own keys: nothing behind it may be decided meanwhile.
  if (document.querySelector('dialog[open]')) return;
  const pressed = prefix ? `${prefix} ${event.key}` : event.key;
  const bindings = allBindings().flatMap((group) => group.bindings);
  const found = bindings.findLast((binding) => binding.key === pressed);
  prefix = !found && !prefix && bindings.some((binding) => binding.key.startsWith(`${pressed} `)) ? pressed : '';
  if (!found) return;
  event.preventDefault();
  found.run();
}
document.addEventListener('keydown', onKey);

/** `#/tasks?new` opens what is new. */
export function useNew(open) {
  useEffect(() => {
    const look = () => {
      if (!location.hash.endsWith('?new')) return;
      history.replaceState(null, '', location.hash.replace('?new', ''));
      open(true);
    };
    look();
    addEventListener('hashchange', look);
    return () => removeEventListener('hashchange', look);
  }, []);
}

const SHOWN_MS = 7000;
const SHOWN_MAX = 4;

/** @type {{ text: string, kind: string }[]} */
let notices = [];
let drawNotices = () => {};

function change(next) {
  notices = next.slice(-SHOWN_MAX);
  drawNotices();
}

/** @param {'done' | 'failed' | 'urgent'} [kind] `urgent` interrupts what a screen reader says */
export function notify(text, kind = 'done') {
  const notice = { text, kind };
  change([...notices, notice]);
  setTimeout(dismiss, SHOWN_MS, notice);
}
const dismiss = (notice) => change(notices.filter((one) => one !== notice));

export const complain = (error) => notify(asApiError(error).message, 'failed');

export function Notices() {
  const [, draw] = useState(0);
  useLayoutEffect(() => { drawNotices = () => draw((count) => count + 1); }, []);
  const list = (urgent) => notices.filter((notice) => (notice.kind === 'urgent') === urgent).map((notice) => html`
    <p key=${notice} class="notice ${notice.kind}">${full(notice.text)}
      <button class="plain" aria-label="Dismiss" onClick=${() => dismiss(notice)}>×</button></p>`);
  return html`<div class="notices"><div role="status" aria-live="polite">${list(false)}</div>
    <div role="alert" aria-live="assertive">${list(true)}</div></div>`;
}

/** The words of `core::phase`, each with a form of its own. */
export const mark = (phase, quiet = false) => phase && html`<span class="phase ${line(phase, 40).replaceAll(' ', '-')}"><i class="dot" aria-hidden="true"></i>
  <span class=${quiet && 'spoken'}>${line(phase, 40)}</span></span>`;

/** @param {{ phase?: string | null }} one */
export const isOver = ({ phase }) => ['done', 'failed', 'stopped'].includes(phase ?? '');

/** @param {Props.Steps} _ */
export const Steps = ({ items }) => html`<ol class="steps">${items.map((item) => html`<li key=${item.ordinal} class=${item.kind.replace(/[^a-z]/g, '-')}>
  ${short(item.text, 400)} ${exactly(item.at)}</li>`)}</ol>`;

export const Badge = ({ tone = '', children, title = '' }) => html`<span class="badge ${tone}" title=${title || undefined}>${children}</span>`;

export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`;

export function Problem({ error, what, again }) {
  if (!error) return null;
  if (error.status === 404) return html`<${Empty} title="Not in this daemon"><p>It has no ${what}. A newer codex-bridge may.</p><//>`;
  if (error.status === 403) {
    return html`<${Empty} title="Not for this session"><p>${full(error.message)}</p>
      <p>A session from <code>codex-bridge console</code> may.</p><//>`;
  }
  return html`<div class="problem" role="alert"><p><strong>Couldn’t read ${what}:</strong> ${full(error.message)}</p>
    ${again && html`<button onClick=${again}>Try again</button>`}</div>`;
}

export const Loading = ({ error, what, again }) => (error ? html`<${Problem} error=${error} what=${what} again=${again} />`
  : html`<p class="loading" role="status">Loading…</p>`);

export function Act({ act, done, tone = '', disabled = false, title, about, children }) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    await act().then(() => done && notify(done), complain);
    setBusy(false);
  };
  return html`<button class=${tone} disabled=${disabled || busy} aria-busy=${busy} aria-describedby=${about} title=${title} onClick=${run}>${children}</button>`;
}

export function Dialog({ title, onClose, children, wide = false, bare = false }) {
  const ref = useRef(null);
  useEffect(() => {
    const dialog = ref.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return html`<dialog ref=${ref} class=${wide && 'wide'} aria-labelledby="dialog-title" onClose=${onClose}
      onClick=${(event) => event.target === ref.current && onClose()}><div class="dialog-body">
    <header class=${bare && 'spoken'}><h2 id="dialog-title" tabindex="-1" autofocus=${!bare}>${title}</h2>
      <button class="plain" aria-label="Close" onClick=${onClose}>×</button></header>${children}</div></dialog>`;
}

/** Nothing is confirmed by Enter alone: the focus is elsewhere. */
export const Confirm = ({ title, yes, act, onClose, tone = 'danger', children }) => html`<${Dialog} title=${title} onClose=${onClose}>${children}
  <div class="actions"><button onClick=${onClose}>Don’t</button><${Act} tone=${tone} act=${() => act().then(onClose)}>${yes}<//></div><//>`;

/** @param {Props.Facts} _ */
export const Facts = ({ rows }) => html`<dl class="facts">${rows.filter(([, value]) => value || value === 0)
  .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

export const Head = ({ title, sub, children }) => html`<header class="head">
  <div><h1 tabindex="-1">${title}</h1>${sub && html`<p class="sub">${sub}</p>`}</div><div class="actions">${children}</div></header>`;

export const Field = ({ label, ...input }) => html`<label class="field">${label}<input autocomplete="off" spellcheck=${false} ...${input} /></label>`;

export const Select = ({ label, options, inline = false, ...select }) => html`<label class="field ${inline && 'inline'}">${label}<select ...${select}>
  ${options.map(([value, words]) => html`<option value=${value}>${words}</option>`)}</select></label>`;

export const Table = ({ label, heads, children }) => html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table>
  <thead><tr>${heads.map((head) => html`<th>${head}</th>`)}</tr></thead><tbody>${children}</tbody></table></div>`;

export function save(name, content) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(URL.revokeObjectURL, 60_000, link.href);
}

const [LINES_PER_PART, LINE_PX, ROWS_PER_PART] = [120, 20, 40];
const NEAR = '1200px 0px';

function useInSight(callback, { rootMargin = '0px', off = false }) {
  const ref = useRef(null);
  useEffect(() => {
    if (off) return;
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && callback(), { rootMargin });
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, [off]);
  return ref;
}

function Part({ height, now, draw }) {
  const [near, setNear] = useState(now);
  const ref = useInSight(() => setNear(true), { rootMargin: NEAR, off: near });
  return near ? draw() : html`<div ref=${ref} style=${{ height: `${height}px` }}></div>`;
}

/** Drawn when near to what is in sight. @type {(all: any[], size: number, height: number, draw: (some: any[]) => Child) => Child[]} */
const inParts = (all, size, height, draw) => Array.from({ length: Math.ceil(all.length / size) }, (_, at) => {
  const some = all.slice(at * size, (at + 1) * size);
  return html`<${Part} key=${at} now=${at === 0} height=${some.length * height} draw=${() => draw(some)} />`;
});

export const Rows = ({ rows, height = 57, id, draw, label }) => html`<div class="rows" role="list" aria-label=${label}>
  ${inParts(rows, ROWS_PER_PART, height, (some) => some.map((row) => html`<div key=${id(row)} role="listitem">${draw(row)}</div>`))}</div>`;

const DIFF = { '@': 'hunk', '+': 'added', '-': 'removed' };

function coloured(lines) {
  const out = [];
  for (let from = 0, to; from < lines.length; from = to) {
    const kind = DIFF[lines[from]?.[0] ?? ''] ?? 'same';
    for (to = from; to < lines.length && (DIFF[lines[to]?.[0] ?? ''] ?? 'same') === kind;) to += 1;
    // They are blocks: a line end between two of them would be an empty line.
    out.push(html`<span class=${kind}>${lines.slice(from, to).join('\n')}</span>`);
  }
  return out;
}

/** A text of any length; `onEnd` when its end was in sight. */
export function LongText({ text, label, diff = false, onEnd }) {
  const end = useInSight(() => onEnd(), { off: !onEnd });
  return html`<div class="long" role="group" aria-label=${label} tabindex="0">
    ${inParts(text.trimEnd().split('\n'), LINES_PER_PART, LINE_PX, (lines) => html`<pre>${diff ? coloured(lines) : lines.join('\n')}</pre>`)}
    <i ref=${end} class="end" aria-hidden="true"></i></div>`;
}

const FAR = 0.4;

/** Attributes of what is swiped: `--swipe` says how far it is, `data-swipe` what would happen. */
export function useSwipe({ onRight, onLeft }) {
  /** @type {Ref<{ x: number, y: number, moves: boolean } | null>} */
  const start = useRef(null);
  const show = (element, by) => {
    element.style.setProperty('--swipe', `${by}px`);
    element.dataset.swipe = Math.abs(by) < element.offsetWidth * FAR ? '' : by > 0 ? 'accept' : 'decline';
  };
  const end = ({ type, currentTarget: element }) => {
    const act = start.current?.moves && type === 'pointerup' && element.dataset.swipe;
    start.current = null;
    element.classList.remove('swiping');
    show(element, 0);
    if (act) (act === 'accept' ? onRight : onLeft)?.();
  };
  return {
    onPointerDown: ({ target, pointerType, clientX, clientY }) => {
      const inside = target.closest('.long, button, input, textarea, a, summary');
      // Long texts scroll sideways themselves.
      const free = !inside || (inside.className === 'long' && inside.scrollWidth <= inside.clientWidth);
      if (pointerType !== 'mouse' && free) start.current = { x: clientX, y: clientY, moves: false };
    },
    onPointerMove: ({ currentTarget: element, pointerId, clientX, clientY }) => {
      const from = start.current;
      if (!from) return;
      const [x, y] = [clientX - from.x, clientY - from.y];
      if (!from.moves) {
        if (Math.abs(x) < 12) return;
        if (Math.abs(y) > Math.abs(x)) return void (start.current = null);
        from.moves = true;
        element.classList.add('swiping');
        element.setPointerCapture(pointerId);
      }
      show(element, (x > 0 ? onRight : onLeft) ? x : x / 6);
    },
    onPointerUp: end,
    onPointerCancel: end,
  };
}
