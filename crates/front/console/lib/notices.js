// @ts-check
/** Short notices at the edge of the screen, which screen readers speak. */

import { html, useEffect, useState } from './html.js';
import { visible } from './text.js';

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
