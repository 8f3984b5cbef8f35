// @ts-check
/** Rows that a screen shows: read when it opens, and again whenever an event says that they may have changed. */

import { ApiError } from './api.js';
import { useCallback, useEffect, useRef, useState } from './html.js';
import { useEvents } from './live.js';

/** Shortest time between two reads of the same rows: a busy daemon sends hundreds of events in a second. */
const READ_EVERY_MS = 100;

/**
 * @template T
 * @param {() => Promise<T>} read
 * @param {readonly unknown[]} inputs read anew when one changes
 * @param {(event: import('../../console-types/ui').StreamEvent) => boolean} [concerns] which events ask for a new read
 * @returns {{ value: T | null, error: ApiError | null, reload: () => void }}
 */
export function useRows(read, inputs, concerns) {
  const [state, setState] = useState(/** @type {{ value: T | null, error: ApiError | null }} */ ({ value: null, error: null }));
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
  return error instanceof ApiError ? error : new ApiError(-1, String(error));
}
