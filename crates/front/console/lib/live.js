// @ts-check
/**
 * `/v1/events`, once per browser, and the rows that it says may have changed. HTTP/1.1 allows six connections, so the pages
 * choose one that holds the stream (a Web Lock) and tells the others (a BroadcastChannel). Where there is no lock (plain
 * http from another machine) each page has its own stream.
 */

import { ApiError } from './api.js';
import { useCallback, useEffect, useRef, useState } from './html.js';
import { follow } from './stream.js';

/** @typedef {{ type: 'event', event: StreamEvent } | { type: 'connection', connected: boolean } | { type: 'asked' }} Told */

/** Events that are remembered, to leave out what a resumed stream repeats. */
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

/**
 * What makes an event the same one when it is told again.
 * @param {StreamEvent} event
 */
function identity({ name, data }) {
  switch (name) {
    case 'item': return `item ${data.message_id} ${data.ordinal}`;
    case 'request': return `request ${data.request_id} ${data.state}`;
    case 'state': return `state ${data.message_id} ${data.state} ${data.attempt} ${data.at}`;
    default: return null;
  }
}

/** @param {StreamEvent} event */
function deliver(event) {
  lastId = event.id ?? lastId;
  const key = identity(event);
  if (key !== null) {
    if (seen.has(key)) return;
    seen.add(key);
    for (const oldest of seen) {
      if (seen.size <= REMEMBERED_MAX) break;
      seen.delete(oldest);
    }
  }
  listeners.forEach((listener) => listener(event));
}

/** @param {boolean} now */
function setConnected(now) {
  if (now === connected) return;
  connected = now;
  watchers.forEach((watcher) => watcher(now));
  // What was missed is told again by the stream; lists are read again for what the stream does not tell.
  if (now) listeners.forEach((listener) => listener({ name: 'ready', id: null, data: {} }));
}

/** @param {Told} told */
const tell = (told) => channel?.postMessage(told);

/** @param {AbortSignal} signal */
async function lead(signal) {
  leads = true;
  await follow('events', {
    signal,
    lastId,
    onEvent: (event) => {
      deliver(event);
      tell({ type: 'event', event });
    },
    onConnection: (now) => {
      setConnected(now);
      tell({ type: 'connection', connected: now });
    },
  });
  leads = false;
}

/** Begins to listen; once per page. */
export function startLive() {
  if (running) return;
  running = new AbortController();
  const { signal } = running;
  if (!navigator.locks) return void lead(signal);
  channel = new BroadcastChannel('codex-bridge events');
  channel.onmessage = ({ data }) => {
    const told = /** @type {Told} */ (data);
    if (told.type === 'event') deliver(told.event);
    else if (told.type === 'connection') setConnected(told.connected);
    else if (leads) tell({ type: 'connection', connected });
  };
  tell({ type: 'asked' });
  navigator.locks.request('codex-bridge events', { signal }, () => lead(signal)).catch(() => undefined);
}

export function stopLive() {
  running?.abort();
  channel?.close();
  running = null;
  channel = null;
  leads = false;
}

/** Whether the stream stands. */
export function useConnected() {
  const [now, setNow] = useState(connected);
  useEffect(() => {
    setNow(connected);
    watchers.add(setNow);
    return () => void watchers.delete(setNow);
  }, []);
  return now;
}

/**
 * Calls back with each event. `ready` and `reset` say that lists must be read again.
 * @param {(event: StreamEvent) => void} listener
 * @param {readonly unknown[]} inputs
 */
export function useEvents(listener, inputs) {
  useEffect(() => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, inputs);
}

/** Shortest time between two reads of the same rows: a busy daemon sends hundreds of events in a second. */
const READ_EVERY_MS = 100;

/**
 * @template T
 * @param {() => Promise<T>} read
 * @param {readonly unknown[]} inputs read anew when one changes
 * @param {(event: StreamEvent) => boolean} [concerns] which events ask for a new read
 * @returns {{ value: T | null, error: Failed | null, reload: () => void }}
 */
export function useRows(read, inputs, concerns) {
  const [state, setState] = useState(/** @type {{ value: T | null, error: Failed | null }} */ ({ value: null, error: null }));
  const work = useRef({ round: 0, busy: false, again: false });

  const reload = useCallback(async () => {
    const mine = work.current;
    if (mine.busy) {
      mine.again = true;
      return;
    }
    mine.busy = true;
    const { round } = mine;
    do {
      mine.again = false;
      const began = Date.now();
      const next = await read().then((value) => ({ value, error: null }), (error) => ({ value: null, error: asApiError(error) }));
      if (work.current !== mine || mine.round !== round) return;
      // Old rows with a remark are better than an empty screen.
      setState((old) => (next.error ? { value: next.error.status === 0 ? old.value : null, error: next.error } : next));
      if (mine.again) await new Promise((resolve) => setTimeout(resolve, READ_EVERY_MS - (Date.now() - began)));
    } while (mine.again && work.current === mine);
    mine.busy = false;
  }, inputs);

  useEffect(() => {
    setState({ value: null, error: null });
    work.current = { round: 0, busy: false, again: false };
    reload();
    return () => {
      work.current = { round: 1, busy: true, again: false };
    };
  }, [reload]);

  useEvents((event) => {
    const missed = event.name === 'ready' || event.name === 'reset';
    if (missed || concerns?.(event)) reload();
  }, [reload]);

  return { ...state, reload };
}

/** @param {unknown} error */
export function asApiError(error) {
  return error instanceof ApiError ? error : new ApiError(-1, error instanceof Error ? error.message : String(error));
}
