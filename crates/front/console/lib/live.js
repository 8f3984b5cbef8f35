// @ts-check
/**
 * `/v1/events`, once per browser: HTTP/1.1 allows six connections, so the pages choose one that holds the stream (a Web
 * Lock) and tells the others (a BroadcastChannel). Where the lock is missing (plain http from another machine) each page
 * has its own stream.
 */

import { follow } from './stream.js';
import { useEffect, useState } from './html.js';

/** @typedef {import('../../console-types/ui').StreamEvent} StreamEvent */
/** @typedef {import('./api.js').ApiError} ApiError */
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
