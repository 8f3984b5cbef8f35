// @ts-check
/** Keys. A screen names what its keys do; `?` shows them all. */

import { useEffect } from './html.js';

/** @typedef {{ key: string, what: string, run: () => void }} Binding `key` is `a` or `g c` */

/** @type {Map<object, { title: string, bindings: Binding[] }>} */
const groups = new Map();
let prefix = '';

/** All keys that do something now, by screen. */
export const allBindings = () => [...groups.values()];

/**
 * @param {string} title
 * @param {Binding[]} bindings
 */
export function useKeys(title, bindings) {
  useEffect(() => {
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
