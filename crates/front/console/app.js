/** The page, and what every screen uses of it. */

import * as preact from './vendor/preact.mjs';
import * as hooks from './vendor/hooks.mjs';
import htm from './vendor/htm.mjs';

export const { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useErrorBoundary } = /** @type {Hooks} */ (/** @type {unknown} */ (hooks));
export const { html, render } = /** @type {Templates} */ ({ html: htm.bind(preact.h), render: preact.render });

export const useListener = (name, listener, target = /** @type {EventTarget} */ (globalThis)) => useEffect(() => {
  target.addEventListener(name, listener);
  return () => target.removeEventListener(name, listener);
}, []);

/** @returns {any} */
export const find = (selector) => document.querySelector(selector);

export const goTo = (path) => { location.hash = `#/${path}`; };

export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

export const typed = (set) => ({ target }) => set(target.value);

// ---- Calls of `/v1`, event streams, and rows that are read again when something happens. Addresses work under any prefix.

// The half of the session that scripts can read, also for browsers that forbid storage; the other one is a cookie (ADR 0078).
let half = '';

/** `sw.js` reads the same. */
const stored = (mode, act) => new Promise((resolve, reject) => {
  const opening = indexedDB.open('codex-bridge', 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore('session');
  opening.onerror = reject;
  opening.onsuccess = () => {
    const request = act(opening.result.transaction('session', mode).objectStore('session'));
    request.onsuccess = () => resolve(request.result ?? '');
    request.onerror = reject;
  };
}).catch(() => '');

export const recall = (key) => stored('readonly', (store) => store.get(key));
export const remember = (key, value) => stored('readwrite', (store) => (value ? store.put(value, key) : store.delete(key)));

async function keepHalf(next) {
  half = next;
  await remember('half', next);
}

/** @returns {Promise<Record<string, string>>} */
async function sessionHeaders() {
  half ||= await recall('half');
  return half ? { 'codex-bridge-session': half } : {};
}

/** Out of the address, so that it stays in no history. */
function takeLoginCode() {
  const code = /^#login=(.+)$/.exec(location.hash)?.[1];
  if (!code) return null;
  history.replaceState(null, '', `${location.pathname}${location.search}#/requests`);
  return code;
}

const PATIENCE_MS = 30_000;

/** Status 0: the daemon was not reached. */
class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** @returns {ApiError} */
export const asApiError = (error) => (error instanceof ApiError ? error : new ApiError(-1, String(error?.message ?? error)));

/** Called when the daemon does not know the session. */
let signedOut = () => {};

async function call(path, request) {
  const response = await fetch(new URL(`../v1/${path}`, document.baseURI), {
    ...request, credentials: 'same-origin', cache: 'no-store', headers: { ...(await sessionHeaders()), ...request.headers },
  });
  if (response.ok) return response;
  const problem = await response.json().catch(() => null);
  if (response.status === 401) signedOut();
  throw new ApiError(response.status, problem?.detail || `the daemon answered ${response.status}`);
}

const send = (method, path, body, headers) => call(path, {
  method,
  headers: { accept: 'application/json', ...(body ? { 'content-type': 'application/json' } : {}), ...headers },
  body: body ? JSON.stringify(body) : null,
  signal: AbortSignal.timeout(PATIENCE_MS),
}).catch((error) => {
  if (error instanceof ApiError) throw error;
  throw new ApiError(0, error.name === 'TimeoutError' ? 'the daemon did not answer in 30 s' : 'the daemon can’t be reached: is it running?');
});

export const get = /** @type {Get} */ (async (path, query = {}) => {
  const wanted = Object.entries(query).filter(([, value]) => value != null && value !== '');
  return (await send('GET', wanted.length > 0 ? `${path}?${new URLSearchParams(/** @type {any} */ (wanted))}` : path)).json();
});

export const post = /** @type {Post} */ (async (path, body = {}, headers = {}) => (await send('POST', path, body, headers)).json());

export async function remove(path) {
  const answer = await (await send('DELETE', path)).text();
  return answer ? JSON.parse(answer) : null;
}

export const download = async (path) => (await send('GET', path)).blob();

export const everything = /** @type {Everything} */ (async (path, field, query = {}, most = 2000) => {
  const found = [];
  let { before } = query;
  do {
    /** @type {any} */
    const page = await get(path, { limit: 500, ...query, before });
    found.push(...page[field]);
    before = page.next;
  } while (before && found.length < most);
  return found;
});

async function signIn(code) {
  const opened = await post('session', { code });
  await keepHalf(opened.half);
  return opened;
}

export async function signOut() {
  await remove('session');
  await keepHalf('');
}

/** The daemon sends a comment every 15 s; without any byte for this long the connection is dead. */
const SILENCE_MS = 40_000;
/** Before it is tried again; the last of them ever after. */
const WAITS_MS = [50, 150, 300, 400];
const EVENT_MAX_CHARS = 32 * 1024 * 1024;

function eventParser(emit) {
  /** @returns {StreamEvent} */
  const fresh = () => ({ name: 'message', id: null, data: '' });
  let rest = '';
  let event = fresh();
  const take = (line) => {
    const [, field, value = ''] = line.match(/^([^:]*)(?:: ?(.*))?$/s);
    if (line === '') {
      if (event.data) emit({ ...event, data: JSON.parse(event.data) });
      event = fresh();
    } else if (field === 'event') event.name = value;
    else if (field === 'data') event.data += value;
    else if (field === 'id') event.id = value;
  };
  return (chunk) => {
    rest += chunk;
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    lines.forEach((line) => take(line.replace(/\r$/, '')));
    if (rest.length > EVENT_MAX_CHARS) throw new Error('an event is too long');
  };
}

/** By `fetch`: an `EventSource` has no headers. @param {Follow & { path: string }} _ */
async function connection({ path, signal, lastId, onEvent, onConnection }) {
  const silence = new AbortController();
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE_MS);
  };
  heard();
  try {
    const headers = { accept: 'text/event-stream', ...(lastId ? { 'last-event-id': lastId } : {}) };
    const response = await call(path, { headers, signal: AbortSignal.any([signal, silence.signal]) });
    onConnection?.(true);
    const parse = eventParser(onEvent);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader?.read() ?? { done: true };
      if (done) return;
      heard();
      parse(value);
    }
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

/** @type {(path: string, options: Follow) => Promise<void>} */
export async function follow(path, { signal, lastId, onEvent, onConnection, endsWith }) {
  let over = false;
  signal.addEventListener('abort', () => { over = true; });
  for (let failed = 0; !over; failed += 1) {
    await connection({
      path, signal, lastId,
      onEvent: (event) => {
        lastId = event.id ?? lastId;
        over ||= event.name === endsWith;
        onEvent(event);
      },
      onConnection: () => {
        failed = 0;
        onConnection?.(true);
      },
    }).catch((error) => {
      if (over) return;
      onConnection?.(false);
      // Asking again would get the same answer.
      over = [401, 403, 404].includes(error.status);
    });
    if (!over) await new Promise((resolve) => setTimeout(resolve, WAITS_MS[failed] ?? WAITS_MS.at(-1)));
  }
}

// HTTP/1.1 allows six connections: one page of a browser holds the stream (a Web Lock) and passes it on (a BroadcastChannel).
// Without locks, on plain http from another machine, each page has its own.

/** A resumed stream repeats events. */
const REMEMBERED_MAX = 4096;

const listeners = new Set();
const seen = new Set();

let connected = true;
let showConnected = (now) => {};
let leads = false;
let lastId;
let channel;

/** @param {StreamEvent} event */
function deliver(event) {
  lastId = event.id ?? lastId;
  const { name, data } = event;
  if (['item', 'request', 'state'].includes(name)) {
    const key = [name, data.message_id, data.request_id, data.ordinal, data.state, data.attempt, data.at].join();
    if (seen.has(key)) return;
    seen.add(key);
    if (seen.size > REMEMBERED_MAX) seen.delete(seen.values().next().value);
  }
  listeners.forEach((listener) => listener(event));
}

function setConnected(now) {
  if (now === connected) return;
  connected = now;
  showConnected(now);
  if (now) deliver({ name: 'ready', id: null, data: {} });
}

async function lead() {
  leads = true;
  await follow('events', {
    signal: new AbortController().signal,
    lastId,
    onEvent: (event) => {
      deliver(event);
      channel?.postMessage({ event });
    },
    onConnection: (now) => {
      setConnected(now);
      channel?.postMessage({ connected: now });
    },
  });
  leads = false;
}

function startLive(show) {
  showConnected = show;
  if (!navigator.locks) return void lead();
  const others = new BroadcastChannel('codex-bridge events');
  others.onmessage = ({ data }) => {
    if (data.event) deliver(data.event);
    else if (data.asked && leads) others.postMessage({ connected });
    else if (!data.asked) setConnected(data.connected);
  };
  others.postMessage({ asked: true });
  channel = others;
  navigator.locks.request('codex-bridge events', lead);
}

/** A busy daemon sends hundreds of events in a second. */
const READ_EVERY_MS = 100;
const NOTHING = { value: null, error: null };

/** Read anew when an input changes, or an event comes that it `concerns`. */
export const useRows = /** @type {UseRows} */ ((read, inputs, concerns) => {
  const [state, setState] = useState(/** @type {any} */ (NOTHING));
  const work = useRef(null);

  const reload = useCallback(async () => {
    const mine = work.current;
    if (!mine || mine.busy) {
      if (mine) mine.again = true;
      return;
    }
    mine.busy = true;
    do {
      mine.again = false;
      const earliest = Date.now() + READ_EVERY_MS;
      const next = await read().then((value) => ({ value, error: null }), (error) => ({ value: null, error: asApiError(error) }));
      if (work.current !== mine) return;
      // Old rows with a remark are better than an empty screen.
      setState((old) => (next.error?.status === 0 ? { ...next, value: old.value } : next));
      if (mine.again) await new Promise((resolve) => setTimeout(resolve, earliest - Date.now()));
    } while (mine.again && work.current === mine);
    mine.busy = false;
  }, inputs);

  // Before the first paint: the daemon answers meanwhile.
  useLayoutEffect(() => {
    setState(NOTHING);
    work.current = { busy: false, again: false };
    reload();
    return () => { work.current = null; };
  }, [reload]);
  useEffect(() => {
    const listener = (/** @type {StreamEvent} */ event) => void ((['ready', 'reset'].includes(event.name) || concerns?.(event)) && reload());
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, [reload]);

  return { ...state, reload };
});

// ---- What every screen uses. Texts of Codex, senders and files are hostile: what can't be seen is written out as `<U+202E>`.

// Emoji keep their joiners; else controls, what is ignored by default, lone surrogates.
const HIDDEN = /(\p{Extended_Pictographic}\ufe0f?(?:\u200d\p{Extended_Pictographic}\ufe0f?)*)|(?![\t\n])[\p{Cc}\p{DI}\u2028\u2029\u205f\ufff9-\ufffb]|\p{Cs}/gu;
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

export function format(options) {
  // Costs 4 ms to make, and 4 times that on a phone.
  let made;
  return (at) => (made ??= new Intl.DateTimeFormat(undefined, options)).format(new Date(at));
}
const moment = format({ dateStyle: 'medium', timeStyle: 'medium' });
const exact = format({ timeStyle: 'medium' });
const clock = format({ timeStyle: 'short' });
const day = format({ month: 'short', day: 'numeric' });

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

const groups = new Map();
let prefix = '';

const allBindings = () => [...Map.groupBy(groups.values(), ({ title }) => title)]
  .map(([title, some]) => ({ title, bindings: some.flatMap((group) => group.bindings) }));

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
  if (find('dialog[open]')) return;
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
  const look = () => {
    if (!location.hash.endsWith('?new')) return;
    history.replaceState(null, '', location.hash.replace('?new', ''));
    open(true);
  };
  useEffect(look, []);
  useListener('hashchange', look);
}

const SHOWN_MS = 7000;
const SHOWN_MAX = 4;

let notices = [];
let drawers = [];

function change(next) {
  notices = next.slice(-SHOWN_MAX);
  drawers.forEach((draw) => draw({}));
}

export function notify(text, kind = 'done') {
  const notice = { text, kind };
  change([...notices, notice]);
  setTimeout(dismiss, SHOWN_MS, notice);
}
const dismiss = (notice) => change(notices.filter((one) => one !== notice));

export const complain = (error) => notify(asApiError(error).message, 'failed');

function Notices() {
  const [, draw] = useState({});
  useLayoutEffect(() => {
    drawers = [...drawers, draw];
    change(notices);
    return () => {
      drawers = drawers.filter((one) => one !== draw);
      change(notices);
    };
  }, []);
  const list = (urgent) => notices.filter((notice) => drawers.at(-1) === draw && (notice.kind === 'urgent') === urgent).map((notice) => html`
    <p key=${notice} class="notice ${notice.kind}">${full(notice.text)}
      <button class="plain" aria-label="Dismiss" onClick=${() => dismiss(notice)}>×</button></p>`);
  return html`<div class="notices"><div role="status" aria-live="polite">${list(false)}</div>
    <div role="alert" aria-live="assertive">${list(true)}</div></div>`;
}

export const mark = (phase, quiet = false) => phase && html`<span class="phase ${line(phase, 40).replaceAll(' ', '-')}"><i class="dot" aria-hidden="true"></i>
  <span class=${quiet && 'spoken'}>${line(phase, 40)}</span></span>`;

export const SOURCE = { harvested: 'Taken from Codex’s history after a crash.', shared: 'Shared with the message whose turn it joined.' };

export const isOver = (one) => ['done', 'failed', 'stopped'].includes(one.phase);

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

export function Later({ summary, read, draw }) {
  const [value, setValue] = useState(null);
  const open = ({ target }) => void (target.open && !value && read().then(setValue, complain));
  return html`<details onToggle=${open}><summary>${summary}</summary>${value ? draw(value) : html`<${Loading} />`}</details>`;
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
      <button class="plain" aria-label="Close" onClick=${onClose}>×</button></header>${children}</div><${Notices} /></dialog>`;
}

/** Nothing is confirmed by Enter alone: the focus is elsewhere. */
export const Confirm = ({ title, yes, act, onClose, tone = 'danger', children }) => html`<${Dialog} title=${title} onClose=${onClose}>${children}
  <div class="actions"><button onClick=${onClose}>Don’t</button><${Act} tone=${tone} act=${() => act().then(onClose)}>${yes}<//></div><//>`;

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

const [LINES_PER_PART, LINE_PX, ROWS_PER_PART] = [120, 20, 24];
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
    const kind = DIFF[lines[from][0]] ?? 'same';
    for (to = from; to < lines.length && (DIFF[lines[to][0]] ?? 'same') === kind;) to += 1;
    // They are blocks: a line end between two of them would be an empty line.
    out.push(html`<span class=${kind}>${lines.slice(from, to).join('\n')}</span>`);
  }
  return out;
}

export function LongText({ text, label, diff = false, onEnd }) {
  const end = useInSight(() => onEnd(), { off: !onEnd });
  return html`<div class="long" role="group" aria-label=${label} tabindex="0">
    ${inParts(text.trimEnd().split('\n'), LINES_PER_PART, LINE_PX, (lines) => html`<pre>${diff ? coloured(lines) : lines.join('\n')}</pre>`)}
    <i ref=${end} class="end" aria-hidden="true"></i></div>`;
}

const FAR = 0.4;

/** Attributes of what is swiped: `--swipe` says how far it is, `data-swipe` what would happen. */
export function useSwipe({ onRight, onLeft }) {
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

// ---- The frame: session, routes, navigation.

/** `file` exports the screen by its name; `icon` is a path of 24 by 24. @type {Entry[]} */
const ENTRIES = [
  ['requests', 'i', 'Inbox', 'work', 'M4 13l3-8h10l3 8v6H4zM4 13h5a3 3 0 0 0 6 0h5', 'requests'],
  ['conversations', 'c', 'Conversations', 'work', 'M4 5h16v11H10l-5 4v-4H4z'],
  ['tasks', 't', 'Tasks', 'work', 'M9 6h11M9 12h11M9 18h11M4 6l1 1 2-2M4 12l1 1 2-2M4 18l1 1 2-2'],
  ['dead', 'f', 'Failed', 'work', 'M12 4l9 16H3zM12 10v4M12 17v.5', 'failed'],
  ['health', 'h', 'Health', 'admin', 'M3 12h4l2-6 4 12 2-6h6'],
  ['figures', 'n', 'Figures', 'admin', 'M5 20V10M12 20V4M19 20v-7'],
  ['access', 'a', 'Access', 'admin', 'M14 10a4 4 0 1 1-3.5-4M12 11l8 8M17 16l2-2'],
  ['policy', 'r', 'Rules', 'admin', 'M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6zM9 12l2 2 4-4'],
  ['audit', 'u', 'Audit', 'admin', 'M6 3h9l4 4v14H6zM9 11h7M9 15h7'],
].map(([path, key, name, file, icon, count]) => ({ path, key, name, file, icon, count }));
const WHY = { path: 'messages', key: '', name: 'Why', file: 'work', icon: '' };
const MORE = 'M5 12h.5M12 12h.5M19 12h.5';
const FIRST = 4;
const PHONE = matchMedia('(max-width: 760px)');

/** Screen, id, what of it; each fit to be one part of a path. */
const readRoute = () => location.hash.replace(/^#\/?|\?.*/g, '').split('/').map((part) => encodeURIComponent(part).replace(/%25/g, '%'));

/** @param {string[]} route @returns {Entry} */
function entryOf([path, , sub]) {
  if (path === 'messages') return sub ? entryOf(['conversations']) : WHY;
  return ENTRIES.find((one) => one.path === path) ?? ENTRIES[0];
}
const load = (entry) => import(`./screens/${entry.file}.js`);

function useRoute() {
  const [route, setRoute] = useState(readRoute);
  useListener('hashchange', () => {
    setRoute(readRoute());
    setTimeout(() => find('main h1')?.focus({ preventScroll: true }), 50);
    scrollTo(0, 0);
  });
  return route;
}

const Icon = ({ path }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${path} /></svg>`;

function Navigation({ here, showKeys }) {
  const [phone, setPhone] = useState(PHONE.matches);
  const [open, setOpen] = useState(false);
  const { value } = useRows(() => get('status'), [], (event) => event.name !== 'item');
  const counts = { requests: value?.requests_waiting ?? 0, failed: value?.summary.dead ?? 0 };
  useListener('hashchange', () => setOpen(false));
  useListener('resize', () => setPhone(PHONE.matches));
  useEffect(() => { document.title = counts.requests > 0 ? `(${counts.requests}) codex-bridge` : 'codex-bridge'; }, [counts.requests]);
  /** @param {Entry} entry */
  const link = ({ path, name, count, icon }) => html`<li key=${path}>
    <a href="#/${path}" aria-current=${here === path ? 'page' : undefined}><${Icon} path=${icon} /><span>${name}</span>
      ${count && counts[count] > 0 && html`<b class="count ${count}"><span class="spoken">, </span>${counts[count]}</b>`}</a></li>`;
  return html`<nav aria-label="Screens"><p class="brand">codex-bridge</p>
    <ul>${ENTRIES.slice(0, FIRST).map(link)}</ul>
    <div class="rest">
      ${phone && html`<button class="plain" aria-expanded=${open} onClick=${() => setOpen(!open)}><${Icon} path=${MORE} /><span>More</span></button>`}
      ${(!phone || open) && html`<ul>${ENTRIES.slice(FIRST).map(link)}</ul>`}</div>
    <button class="plain keys-button" onClick=${showKeys}><kbd>?</kbd> Keys</button></nav>`;
}

const Keys = ({ onClose }) => html`<${Dialog} title="Keys" wide onClose=${onClose}><div class="keys">${allBindings().map((group) => html`<section>
  <h3>${group.title}</h3>
  <dl>${group.bindings.map((binding) => html`<div><dt>${binding.key.split(' ').map((key) => html`<kbd>${key}</kbd>`)}</dt>
    <dd>${binding.what}</dd></div>`)}</dl></section>`)}</div><//>`;

const SignedOut = ({ reason }) => html`<main class="signed-out"><${Empty} title="Not signed in">
  ${reason && html`<p>${full(reason)}</p>`}
  <p>In a terminal on the machine of the daemon:</p><pre class="code">codex-bridge console</pre>
  <p class="dim">It opens this page with a code that works once. For a phone: <code>codex-bridge console --phone</code></p><//></main>`;

function Screen({ entry, id, sub, session }) {
  const [shown, setShown] = useState(null);
  const [missing, setMissing] = useState(false);
  const [error, reset] = useErrorBoundary((problem) => console.error(problem));
  useLayoutEffect(() => { load(entry).then((module) => setShown({ screen: module[entry.name] }), () => setMissing(true)); }, []);
  if (missing) return html`<${Empty} title="This screen can’t be loaded"><p>The daemon is away, or another version than this page.</p>
    <button onClick=${() => location.reload()}>Load the page again</button><//>`;
  if (error) return html`<${Empty} title="This screen broke"><p>${full(String(error))}</p><button onClick=${reset}>Show it again</button><//>`;
  return shown ? html`<${shown.screen} id=${id} sub=${sub} session=${session} />` : html`<${Loading} />`;
}

function Frame({ session }) {
  const route = useRoute();
  const [, id, sub] = route;
  const [keys, setKeys] = useState(false);
  const [palette, setPalette] = useState(null);
  const [standing, setStanding] = useState(true);
  const showKeys = () => setKeys(true);
  const to = (path) => () => goTo(path);
  useEffect(() => startLive(setStanding), []);
  useListener('keydown', (event) => {
    if (event.key !== 'k' || event.ctrlKey === event.metaKey) return;
    event.preventDefault();
    if (!find('dialog[open]')) load(WHY).then(({ Palette }) => setPalette({ draw: Palette }), complain);
  });
  useKeys('Everywhere', [{ key: '?', what: 'these keys', run: showKeys }, { key: 'Ctrl+K', what: 'go to a screen, a conversation, a message', run: () => {} },
    ...ENTRIES.map(({ key, name, path }) => ({ key: `g ${key}`, what: `go to ${name}`, run: to(path) }))]);
  const entry = entryOf(route);
  const acts = [...ENTRIES.map(({ name, path }) => [name, to(path)]), ['New message', to('conversations?new')], ['Start a task', to('tasks?new')], ['Keys', showKeys]];
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>To the content</a>
    <${Navigation} here=${entry === WHY ? 'conversations' : entry.path} showKeys=${showKeys} />
    <main id="main" tabindex="-1">
      <div role="status" aria-live="polite">${!standing && html`<p class="offline">
        <i class="dot" aria-hidden="true"></i> The connection is lost; trying again. What you see may be old.</p>`}</div>
      <${Screen} key=${route.join('/')} entry=${entry} id=${id} sub=${sub} session=${session} /></main>
    ${keys && html`<${Keys} onClose=${() => setKeys(false)} />`}<${Notices} />
    ${palette && html`<${palette.draw} acts=${acts} onClose=${() => setPalette(null)} />`}`;
}

// All begin at once: the screen is there when the daemon has said who this is, or asks for a code.
const code = takeLoginCode();
// An old link of who is signed in.
const signedIn = code ? signIn(code).catch((error) => get('session').catch(() => { throw error; })) : get('session');
load(entryOf(readRoute())).catch(() => undefined);

function App() {
  const [session, setSession] = useState(/** @type {Session} */ (null));
  const [out, setOut] = useState(/** @type {string?} */ (null));
  useEffect(() => {
    signedIn.then(setSession, (error) => {
      // A daemon that is away comes back: the frame says so, and tries again.
      if (code || error.status === 401) setOut(code ? error.message : '');
    });
    signedOut = () => setOut((old) => old ?? (session ? 'The session ended: it was revoked, or not used for a week.' : ''));
  }, [session]);
  return out === null ? (!code || session) && html`<${Frame} session=${session} />` : html`<${SignedOut} reason=${out} />`;
}

render(html`<${App} />`, /** @type {Element} */ (document.getElementById('app')));
