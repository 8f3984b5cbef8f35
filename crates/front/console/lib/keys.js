// @ts-check
/** Keys, which a screen names and `?` shows, and short notices, which screen readers speak. */

import { html, useEffect, useLayoutEffect, useState } from './html.js';
import { visible } from './text.js';

/** @typedef {{ key: string, what: string, run: () => void }} Binding `key` is `a` or `g c` */

/** @type {Map<object, { title: string, bindings: Binding[] }>} */
const groups = new Map();
let prefix = '';

/** All keys that do something now, by screen. */
export const allBindings = () => [...Map.groupBy(groups.values(), ({ title }) => title)]
  .map(([title, some]) => ({ title, bindings: some.flatMap((group) => group.bindings) }));

/**
 * @param {string} title
 * @param {Binding[]} bindings
 */
export function useKeys(title, bindings) {
  // Before what it belongs to is painted: a key acts on what is seen.
  useLayoutEffect(() => {
    const owner = {};
    groups.set(owner, { title, bindings });
    return () => void groups.delete(owner);
  });
}

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement
    && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
  if (isTyping(event.target)) {
    if (event.key === 'Escape') /** @type {HTMLElement} */ (event.target).blur();
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

export function startKeys() {
  document.addEventListener('keydown', onKey);
}

/** @typedef {{ id: number, text: string, kind: 'done' | 'failed' | 'urgent' }} Notice */

const SHOWN_MS = 7000;
const SHOWN_MAX = 4;

/** @type {Notice[]} */
let notices = [];
let newest = 0;
/** @type {Set<() => void>} */
const watchers = new Set();

function change(/** @type {Notice[]} */ next) {
  notices = next;
  watchers.forEach((watcher) => watcher());
}

/** @param {string} text @param {Notice['kind']} [kind] `urgent` interrupts what a screen reader says */
export function notify(text, kind = 'done') {
  newest += 1;
  const id = newest;
  change([...notices, { id, text, kind }].slice(-SHOWN_MAX));
  setTimeout(() => dismiss(id), SHOWN_MS);
}

function dismiss(/** @type {number} */ id) {
  if (notices.some((notice) => notice.id === id)) change(notices.filter((notice) => notice.id !== id));
}

export function Notices() {
  const [, draw] = useState(0);
  useEffect(() => {
    const watcher = () => draw((count) => count + 1);
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  }, []);
  const spoken = (/** @type {boolean} */ urgent) => notices.filter((notice) => (notice.kind === 'urgent') === urgent);
  const list = (/** @type {Notice[]} */ some) => some.map((notice) => html`
    <p key=${notice.id} class="notice ${notice.kind}">
      <bdi>${visible(notice.text)}</bdi>
      <button class="plain" aria-label="Dismiss" onClick=${() => dismiss(notice.id)}>×</button>
    </p>`);
  return html`<div class="notices">
    <div role="status" aria-live="polite">${list(spoken(false))}</div>
    <div role="alert" aria-live="assertive">${list(spoken(true))}</div>
  </div>`;
}
