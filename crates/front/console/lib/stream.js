// @ts-check
/** Event streams by `fetch`, so that the session's header goes along: parsed by hand, resumed by hand. */

import { ApiError, address, failure, sessionHeaders } from './api.js';

/** The daemon sends a comment every 15 s; without any byte for this long the connection is dead. */
const SILENCE_MS = 40_000;
/** First wait before it is tried again; each further one is longer, up to the last. */
const WAITS_MS = [50, 150, 300, 400];
/** Longest event that is read. */
const EVENT_MAX_CHARS = 32 * 1024 * 1024;

/**
 * Cuts chunks of text into events.
 * @param {(event: { name: string, id: string | null, data: string }) => void} emit
 */
export function eventParser(emit) {
  let rest = '';
  let name = '';
  /** @type {string | null} */
  let id = null;
  /** @type {string[]} */
  let data = [];
  const take = (/** @type {string} */ line) => {
    if (line === '') {
      if (data.length > 0) emit({ name: name || 'message', id, data: data.join('\n') });
      [name, id, data] = ['', null, []];
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') name = value;
    else if (field === 'data') data.push(value);
    else if (field === 'id' && !value.includes('\0')) id = value;
  };
  return (/** @type {string} */ chunk) => {
    rest += chunk;
    let from = 0;
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n', from)) {
      take(rest.slice(from, rest[end - 1] === '\r' ? end - 1 : end));
      from = end + 1;
    }
    rest = rest.slice(from);
    if (rest.length > EVENT_MAX_CHARS) throw new Error('an event is too long');
  };
}

/**
 * Follows a stream until `signal` is aborted or the stream is over, over as many connections as it takes.
 * @param {string} path
 * @param {{
 *   signal: AbortSignal,
 *   lastId?: string | null,
 *   onEvent: (event: StreamEvent) => void,
 *   onConnection?: (connected: boolean, error?: ApiError) => void,
 *   endsWith?: string,
 * }} options `endsWith`: the event after which the stream is over
 */
export async function follow(path, { signal, lastId = null, onEvent, onConnection, endsWith }) {
  let failed = 0;
  let over = false;
  while (!signal.aborted && !over) {
    try {
      await connection(path, lastId, signal, () => {
        failed = 0;
        onConnection?.(true);
      }, (event) => {
        lastId = event.id ?? lastId;
        over ||= event.name === endsWith;
        onEvent(event);
      });
    } catch (error) {
      if (signal.aborted) return;
      const known = error instanceof ApiError ? error : new ApiError(0, 'the connection to the daemon was lost');
      onConnection?.(false, known);
      // Asking again would get the same answer.
      if ([401, 403, 404].includes(known.status)) return;
    }
    if (!signal.aborted && !over) await pause(WAITS_MS[Math.min(failed, WAITS_MS.length - 1)] ?? 400, signal);
    failed += 1;
  }
}

/**
 * @param {string} path
 * @param {string | null} lastId
 * @param {AbortSignal} signal
 * @param {() => void} onOpen
 * @param {(event: StreamEvent) => void} onEvent
 */
async function connection(path, lastId, signal, onOpen, onEvent) {
  const silence = new AbortController();
  const deadline = () => silence.abort();
  let timer = setTimeout(deadline, SILENCE_MS);
  try {
    const headers = { accept: 'text/event-stream', ...(await sessionHeaders()) };
    const response = await fetch(address(path), {
      headers: lastId === null ? headers : { ...headers, 'last-event-id': lastId },
      credentials: 'same-origin',
      cache: 'no-store',
      signal: AbortSignal.any([signal, silence.signal]),
    });
    if (!response.ok || !response.body) throw await failure(response);
    onOpen();
    const parse = eventParser((event) => onEvent({ ...event, data: JSON.parse(event.data) }));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(deadline, SILENCE_MS);
      parse(value);
    }
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}
