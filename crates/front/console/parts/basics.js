// @ts-check
/** Small parts that every screen uses. */

import { html, useEffect, useRef, useState } from '../lib/html.js';
import { notify } from '../lib/notices.js';
import { asApiError } from '../lib/load.js';
import { line, visible } from '../lib/text.js';

/** @typedef {import('../../console-types/ui').Child} Child */
/** @typedef {import('../lib/api.js').ApiError} ApiError */

/**
 * Foreign text on one line.
 * @param {{ text: string | null | undefined, length?: number }} props
 */
export const Line = ({ text, length = 160 }) => html`<bdi>${line(text, length)}</bdi>`;

/** Foreign text as it is. @param {{ text: string | null | undefined }} props */
export const Text = ({ text }) => html`<bdi>${visible(text)}</bdi>`;

/** The six words of `core::phase`, each with a form of its own. */
const PHASES = new Set(['queued', 'working', 'waiting for you', 'done', 'failed', 'stopped']);

/** @param {{ phase: string | null | undefined, quiet?: boolean }} props `quiet`: the mark alone */
export function Phase({ phase, quiet }) {
  if (!phase) return null;
  const form = PHASES.has(phase) ? phase.replaceAll(' ', '-') : 'other';
  return html`<span class="phase ${form}">
    <i class="dot" aria-hidden="true"></i><span class=${quiet ? 'spoken' : ''}>${line(phase, 40)}</span>
  </span>`;
}

/** @param {{ tone?: string, children?: Child, title?: string }} props */
export const Badge = ({ tone = '', children, title }) => html`<span class="badge ${tone}" title=${title}>${children}</span>`;

/** What a screen shows instead of rows. @param {{ title: string, children?: Child }} props */
export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`;

/** Why rows could not be read, and what to do. @param {{ error: ApiError | null, what: string, again?: () => void }} props */
export function Problem({ error, what, again }) {
  if (!error) return null;
  if (error.status === 404) {
    return html`<${Empty} title="Not in this daemon"><p>It has no ${what}. A newer codex-bridge may.</p></${Empty}>`;
  }
  if (error.status === 403) {
    return html`<${Empty} title="Not for this session">
      <p><${Text} text=${error.message} /></p>
      <p>A session from <code>codex-bridge console</code> may.</p></${Empty}>`;
  }
  return html`<div class="problem" role="alert">
    <p><strong>Couldn’t read ${what}:</strong> <${Text} text=${error.message} /></p>
    ${again && html`<button onClick=${again}>Try again</button>`}
  </div>`;
}

export const Loading = () => html`<p class="loading" role="status">Loading…</p>`;

/**
 * A button that is busy while its act runs, and says when that failed.
 * @param {{ act: () => Promise<unknown>, done?: string, tone?: string, disabled?: boolean, title?: string, label?: string, children?: Child }} props
 */
export function Act({ act, done, tone = '', disabled, title, label, children }) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      await act();
      if (done) notify(done);
    } catch (error) {
      notify(asApiError(error).message, 'failed');
    } finally {
      setBusy(false);
    }
  };
  return html`<button class=${tone} disabled=${disabled || busy} aria-busy=${busy} aria-label=${label} title=${title} onClick=${run}>
    ${children}
  </button>`;
}

/**
 * A dialog over the page; the browser keeps the focus in it and gives it back.
 * @param {{ title: string, onClose: () => void, children?: Child, wide?: boolean }} props
 */
export function Dialog({ title, onClose, children, wide }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return html`<dialog ref=${ref} class=${wide ? 'wide' : ''} aria-labelledby="dialog-title" onCancel=${onClose} onClose=${onClose}
      onClick=${(/** @type {MouseEvent} */ event) => event.target === ref.current && onClose()}>
    <div class="dialog-body">
      <header><h2 id="dialog-title" tabindex="-1" autofocus>${title}</h2>
        <button class="plain" aria-label="Close" onClick=${onClose}>×</button></header>
      ${children}
    </div>
  </dialog>`;
}

/**
 * Asks again before something that can't be taken back. Nothing is confirmed by Enter alone: the focus is elsewhere.
 * @param {{ title: string, yes: string, act: () => Promise<unknown>, onClose: () => void, tone?: string, children?: Child }} props
 */
export function Confirm({ title, yes, act, onClose, tone = 'danger', children }) {
  return html`<${Dialog} title=${title} onClose=${onClose}>
    ${children}
    <div class="actions">
      <button onClick=${onClose}>Don’t</button>
      <${Act} tone=${tone} act=${async () => { await act(); onClose(); }}>${yes}</${Act}>
    </div>
  </${Dialog}>`;
}

/** Names and values. @param {{ rows: [string, Child][] }} props rows without a value are left out */
export const Facts = ({ rows }) => html`<dl class="facts">
  ${rows.filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false)
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
</dl>`;

/** The head of a screen. @param {{ title: Child, sub?: Child, children?: Child }} props */
export const Head = ({ title, sub, children }) => html`<header class="head">
  <div><h1 tabindex="-1">${title}</h1>${sub && html`<p class="sub">${sub}</p>`}</div>
  <div class="actions">${children}</div>
</header>`;
