// @ts-check
/**
 * How foreign text is shown, and times. Every text of Codex, a sender or a file is hostile: what can't be seen is written
 * out as `<U+202E>`, as the daemon does for what is decided about, and nothing is ever HTML.
 */

import { html, useEffect, useState } from './html.js';

// Emoji, which are left alone with their joiners; else controls but tab and line end, format characters, direction
// marks, line separators, tags, lone surrogates.
const HIDDEN = /(\p{Extended_Pictographic}\ufe0f?(?:\u200d\p{Extended_Pictographic}\ufe0f?)*)|[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;
// Colours and movements of the cursor: output of commands is full of them, and here they say nothing.
const TERMINAL = /\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][A-Z0-9])/g;

/**
 * The text with everything invisible written out.
 * @param {string | null | undefined} text
 */
export function visible(text) {
  if (!text) return '';
  return text.replaceAll('\r\n', '\n').replace(HIDDEN, (found, emoji) => emoji ?? codePoint(found));
}

/** @param {string} character */
function codePoint(character) {
  const code = character.codePointAt(0) ?? 0;
  return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
}

/**
 * Output of a command: terminal sequences are left out, everything else invisible is written out.
 * @param {string} text
 */
export function output(text) {
  return visible(text.replace(TERMINAL, ''));
}

/**
 * On one line, at most `length` characters.
 * @param {string | null | undefined} text
 * @param {number} [length]
 */
export function line(text, length = 160) {
  const start = (text ?? '').slice(0, length * 4);
  const shown = visible(start.replace(/\s+/g, ' ').trim());
  return shown.length > length ? `${shown.slice(0, length - 1)}…` : shown;
}

/** The last characters of an id, as the terminal shows it. @param {string} id */
export const shortId = (id) => id.slice(-8);

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString()} ${count === 1 ? one : many}`;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** @param {number} count */
export function bytes(count) {
  let unit = 0;
  let value = count;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value).toLocaleString()} ${UNITS[unit]}`;
}

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

/** A moment: the time of today, else the day, with the whole in its title. @param {Props.When} _ */
export function When({ at, exactly }) {
  if (!at) return null;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return null;
  const short = isToday(date) ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
  return html`<time datetime=${at} title=${moment(at)}>${exactly ? exact(at) : short}</time>`;
}

/** How long until a moment, counting. @param {Props.Countdown} _ */
export function Countdown({ at }) {
  const left = new Date(at).getTime() - useNow();
  if (left <= 0) return html`<time datetime=${at}>out of time</time>`;
  const words = left < 60_000 ? `${Math.ceil(left / 1000)} s` : span(left);
  return html`<time datetime=${at} title=${moment(at)} class=${left < 60_000 ? 'urgent' : ''}>${words} left</time>`;
}

/** How long ago a moment was, counting. @param {Props.Ago} _ */
export function Ago({ at }) {
  const past = useNow() - new Date(at).getTime();
  return html`<time datetime=${at} title=${moment(at)}>${past < 5000 ? 'just now' : `${span(past)} ago`}</time>`;
}
