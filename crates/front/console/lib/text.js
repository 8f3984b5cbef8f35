// @ts-check
/**
 * How foreign text is shown. Every text of Codex, a sender or a file is hostile: what can't be seen is written out as
 * `<U+202E>`, as the daemon does for what is decided about, and nothing is ever HTML.
 */

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
