// @ts-check
/** Times, local, and one clock for everything that counts. */

import { html, useEffect, useState } from './html.js';

const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const seconds = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });

/** @type {Set<() => void>} */
const watchers = new Set();
let timer = 0;

/** The time, once a second while somebody looks. */
export function useNow() {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const tick = () => setNow(Date.now());
    watchers.add(tick);
    if (!timer) timer = setInterval(() => watchers.forEach((watcher) => watcher()), 1000);
    return () => {
      watchers.delete(tick);
      if (watchers.size > 0) return;
      clearInterval(timer);
      timer = 0;
    };
  }, []);
  return now;
}

/**
 * `4 s`, `12 min`, `3 h 20 min`, `5 d`.
 * @param {number} ms
 */
export function span(ms) {
  const total = Math.max(0, Math.round(ms / 1000));
  if (total < 1 && ms > 0) return `${Math.round(ms)} ms`;
  if (total < 60) return `${total} s`;
  const minutes = Math.floor(total / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 && hours < 10 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d`;
}

/** @param {string} at */
export const moment = (at) => whole.format(new Date(at));

/** @param {string} at */
export const exact = (at) => seconds.format(new Date(at));

/** @param {Date} at */
const isToday = (at) => at.toDateString() === new Date().toDateString();

/**
 * A moment: the time of today, else the day, with the whole in its title.
 * @param {{ at: string | null | undefined, exactly?: boolean }} props
 */
export function When({ at, exactly }) {
  if (!at) return null;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return null;
  const short = isToday(date) ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
  return html`<time datetime=${at} title=${moment(at)}>${exactly ? exact(at) : short}</time>`;
}

/**
 * How long until a moment, counting.
 * @param {{ at: string }} props
 */
export function Countdown({ at }) {
  const left = new Date(at).getTime() - useNow();
  if (left <= 0) return html`<time datetime=${at}>out of time</time>`;
  const words = left < 60_000 ? `${Math.ceil(left / 1000)} s` : span(left);
  return html`<time datetime=${at} title=${moment(at)} class=${left < 60_000 ? 'urgent' : ''}>${words} left</time>`;
}

/**
 * How long ago a moment was, counting.
 * @param {{ at: string }} props
 */
export function Ago({ at }) {
  const past = useNow() - new Date(at).getTime();
  return html`<time datetime=${at} title=${moment(at)}>${past < 5000 ? 'just now' : `${span(past)} ago`}</time>`;
}
