// @ts-check
/** Calls of `/v1`, event streams, and rows that are read again when something happens. Addresses work under any prefix. */

import { useCallback, useEffect, useRef, useState } from './html.js';

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
export function takeLoginCode() {
  const code = /^#login=(.+)$/.exec(location.hash)?.[1];
  if (!code) return null;
  history.replaceState(null, '', `${location.pathname}${location.search}#/requests`);
  return decodeURIComponent(code);
}

const PATIENCE_MS = 30_000;

/** Status 0: the daemon was not reached. */
export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** @returns {ApiError} */
export const asApiError = (error) => (error instanceof ApiError ? error : new ApiError(-1, String(error?.message ?? error)));

/** @type {Set<() => void>} */
const signedOut = new Set();

export function onSignedOut(callback) {
  signedOut.add(callback);
  return () => void signedOut.delete(callback);
}

async function call(path, request) {
  const response = await fetch(new URL(`../v1/${path}`, document.baseURI), {
    ...request, credentials: 'same-origin', cache: 'no-store', headers: { ...(await sessionHeaders()), ...request.headers },
  });
  if (response.ok) return response;
  const problem = await response.json().catch(() => null);
  if (response.status === 401) signedOut.forEach((callback) => callback());
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
  let before;
  do {
    /** @type {any} */
    const page = await get(path, { limit: 500, ...query, before });
    found.push(...page[field]);
    before = page.next;
  } while (before && found.length < most);
  return found;
});

export async function signIn(code) {
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

/** @returns {(chunk: string) => void} */
function eventParser(emit) {
  /** @returns {StreamEvent} */
  const fresh = () => ({ name: 'message', id: null, data: '' });
  let rest = '';
  let event = fresh();
  const take = (line) => {
    const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
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

/** @type {Set<(event: StreamEvent) => void>} */
const listeners = new Set();
/** @type {Set<(connected: boolean) => void>} */
const watchers = new Set();
/** @type {Set<string>} */
const seen = new Set();

let connected = true;
let leads = false;
/** @type {string | null} */
let lastId = null;
/** @type {BroadcastChannel | null} */
let channel = null;
/** @type {AbortController | null} */
let running = null;

function identity({ name, data }) {
  if (name === 'item') return `item ${data.message_id} ${data.ordinal}`;
  if (name === 'request') return `request ${data.request_id} ${data.state}`;
  if (name === 'state') return `state ${data.message_id} ${data.state} ${data.attempt} ${data.at}`;
  return null;
}

function deliver(event) {
  lastId = event.id ?? lastId;
  const key = identity(event);
  if (key) {
    if (seen.has(key)) return;
    seen.add(key);
    if (seen.size > REMEMBERED_MAX) seen.delete(seen.values().next().value ?? '');
  }
  listeners.forEach((listener) => listener(event));
}

function setConnected(now) {
  if (now === connected) return;
  connected = now;
  watchers.forEach((watcher) => watcher(now));
  if (now) deliver({ name: 'ready', id: null, data: {} });
}

async function lead(signal) {
  leads = true;
  await follow('events', {
    signal,
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

export function startLive() {
  running = new AbortController();
  const { signal } = running;
  if (!navigator.locks) return void lead(signal);
  const others = new BroadcastChannel('codex-bridge events');
  others.onmessage = ({ data }) => {
    if (data.event) deliver(data.event);
    else if (data.asked && leads) others.postMessage({ connected });
    else if (!data.asked) setConnected(data.connected);
  };
  others.postMessage({ asked: true });
  channel = others;
  navigator.locks.request('codex-bridge events', { signal }, () => lead(signal)).catch(() => undefined);
}

export function stopLive() {
  running?.abort();
  channel?.close();
  channel = null;
  leads = false;
}

export function useConnected() {
  const [now, setNow] = useState(connected);
  useEffect(() => {
    setNow(connected);
    watchers.add(setNow);
    return () => void watchers.delete(setNow);
  }, []);
  return now;
}

/** `ready` and `reset` say that lists must be read again. @type {(listener: (event: StreamEvent) => void, inputs: unknown[]) => void} */
export function useEvents(listener, inputs) {
  useEffect(() => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, inputs);
}

/** A busy daemon sends hundreds of events in a second. */
const READ_EVERY_MS = 100;
const NOTHING = { value: null, error: null };

/** Read anew when an input changes, or an event comes that it `concerns`. */
export const useRows = /** @type {UseRows} */ ((read, inputs, concerns) => {
  const [state, setState] = useState(/** @type {any} */ (NOTHING));
  /** @type {Ref<{ busy: boolean, again: boolean } | null>} */
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

  useEffect(() => {
    setState(NOTHING);
    work.current = { busy: false, again: false };
    reload();
    return () => { work.current = null; };
  }, [reload]);
  useEvents((event) => {
    if (['ready', 'reset'].includes(event.name) || concerns?.(event)) reload();
  }, [reload]);

  return { ...state, reload };
});
