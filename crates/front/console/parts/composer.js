// @ts-check
/** Where a message is written, for a new conversation or one that is there. It says what becomes of the message. */

import { post } from '../lib/api.js';
import { html, typed, useRef, useState } from '../lib/html.js';
import { notify, useKeys } from '../lib/keys.js';
import { asApiError } from '../lib/live.js';
import { bytes, line } from '../lib/text.js';
import { Dialog, Text } from './basics.js';

/** The daemon takes 8 MiB in one body, and base64 makes a third more of a file. */
const FILES_MAX_BYTES = 5.5 * 1024 * 1024;
const CHUNK = 0x8000;

/** @param {File} file @returns {Promise<Upload>} */
async function upload(file) {
  const content = new Uint8Array(await file.arrayBuffer());
  let binary = '';
  for (let at = 0; at < content.length; at += CHUNK) binary += String.fromCharCode(...content.subarray(at, at + CHUNK));
  return { name: file.name, data: btoa(binary), size: content.length };
}

/** The same message sent twice is one. A page of plain http has no `randomUUID`. */
export function newKey() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return `console-${Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/** @param {Props.Files} _ */
function Files({ files, onChange }) {
  const add = async (/** @type {any} */ event) => {
    const picked = await Promise.all(Array.from(event.target.files, (file) => upload(/** @type {File} */ (file))));
    event.target.value = '';
    const next = [...files, ...picked];
    if (next.reduce((sum, file) => sum + file.size, 0) > FILES_MAX_BYTES) notify(`Files of one message may have ${bytes(FILES_MAX_BYTES)} together.`, 'failed');
    else onChange(next);
  };
  return html`<span class="uploads">
    ${files.map((file) => html`<button class="chip" onClick=${() => onChange(files.filter((one) => one !== file))} aria-label="Leave out ${line(file.name, 60)}">
      <${Text} text=${file.name} /> <span class="dim">${bytes(file.size)}</span> ×</button>`)}
    <label class="button plain">Add files<input type="file" multiple class="spoken" onChange=${add} /></label>
  </span>`;
}

/** @param {Props.Write} _ */
export function Write({ label, hint, send, verb, withFiles, rows = 2 }) {
  const [text, setText] = useState('');
  const [files, setFiles] = useState(/** @type {Upload[]} */ ([]));
  const [busy, setBusy] = useState(false);
  // One key until it succeeded: what was sent and not confirmed is not sent twice.
  const key = useRef(newKey());
  const go = async () => {
    if (busy || !text.trim()) return;
    setBusy(true);
    try {
      await send(text, files, key.current);
      setText('');
      setFiles([]);
      key.current = newKey();
    } catch (error) {
      notify(asApiError(error).message, 'failed');
    } finally {
      setBusy(false);
    }
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      go();
    }
  };
  return html`<div class="write">
    <textarea aria-label=${label} placeholder=${label} rows=${rows} value=${text} onKeyDown=${onKeyDown}
      onInput=${(event) => { setText(event.target.value); key.current = newKey(); }}></textarea>
    <div class="write-foot"><p class="dim">${hint}</p>
      ${withFiles && html`<${Files} files=${files} onChange=${setFiles} />`}
      <button class="primary" disabled=${busy || !text.trim()} aria-busy=${busy} title="Ctrl+Enter" onClick=${go}>${verb}</button></div>
  </div>`;
}

/** A message of a conversation. @param {string | null} conversation @param {string} text @param {Upload[]} files @param {string} key */
export const sendMessage = (conversation, text, files, key) => post('messages', {
  text, ...(conversation ? { conversation } : {}), ...(files.length > 0 ? { files: files.map(({ name, data }) => ({ name, data })) } : {}),
}, { 'idempotency-key': key });

/** What became of an instruction. @type {Record<string, string>} */
const STEERED = {
  steered: 'The running turn has it.',
  queued: 'The next turn begins with it.',
  unknown: 'Codex’s word is missing: look at what it does before you say it again.',
  refused: 'It was refused',
};

/**
 * @param {string} kind `messages` or `tasks`
 * @param {string} id
 * @param {string} instruction
 */
export async function steer(kind, id, instruction) {
  const reply = await post(`${kind}/${encodeURIComponent(id)}/steer`, { instruction });
  const words = STEERED[reply.steer] ?? 'It was taken.';
  if (reply.steer === 'refused') throw new Error(`${words}: ${reply.why ?? 'no reason was given'}`);
  notify(reply.why ? `${words} ${reply.why}` : words);
}

/** A button that opens a dialog for a new message. */
export function Composer() {
  const [open, setOpen] = useState(false);
  const [name, setName] = useState('');
  useKeys('Conversations', [{ key: 'n', what: 'new message', run: () => setOpen(true) }]);
  const send = async (/** @type {string} */ text, /** @type {Upload[]} */ files, /** @type {string} */ key) => {
    const sent = await sendMessage(name.trim() || null, text, files, key);
    setOpen(false);
    location.hash = `#/messages/${encodeURIComponent(sent.message_id)}/conversation`;
  };
  return html`<button class="primary" onClick=${() => setOpen(true)}>New message</button>
    ${open && html`<${Dialog} title="New message" wide onClose=${() => setOpen(false)}>
      <label class="field">Conversation
        <input value=${name} placeholder="main" autocomplete="off" onInput=${typed(setName)} /></label>
      <${Write} label="What is to be done?" verb="Send" rows=${5} withFiles send=${send}
        hint="A conversation remembers what was said. It works in a directory of its own." />
    <//>`}`;
}
