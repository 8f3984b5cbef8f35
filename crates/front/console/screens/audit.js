// @ts-check
/**
 * Who did what by hand: filtered, exported, and verified in this browser. Each row is summed with the one before, and the
 * ends are signed with the database's key (`docs/formats.md`).
 */

import { get } from '../lib/api.js';
import { html, typed, useEffect, useMemo, useState } from '../lib/html.js';
import { useRows } from '../lib/live.js';
import { When, counted, line } from '../lib/text.js';
import { Badge, Empty, Head, Line, Loading, Problem, Rows, Text } from '../parts/basics.js';

const RECORD_UNSIGNED = 'record-unsigned';
const encoder = new TextEncoder();

/** Each field with its length in bytes, so that no text can move from one to the next. @param {string[]} fields */
const framed = (fields) => fields.map((field) => `${encoder.encode(field).length}:${field}`).join('');

/** @param {string} text */
async function sha256(text) {
  const digest = await crypto.subtle.digest('SHA-256', encoder.encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** @param {Api.AuditEntryView} entry @param {string} before */
export const sumOf = (entry, before) => sha256(framed([
  before, String(entry.row), String(entry.at_ms), entry.actor, entry.what, entry.subject, entry.detail,
]));

/** What the key signs. @param {Api.AuditEndsView} ends */
export const statement = (ends) => `codex-bridge audit 1\n${framed([String(ends.base), ends.removed ?? '', ends.newest ?? ''])}`;

/** @param {string} text */
const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/**
 * Goes along the record, oldest first.
 * @param {AuditPart} part the whole record, or its newest part
 * @returns {Promise<Finding>}
 */
export async function verifyChain({ entries, ends, before }) {
  if (!ends) return { tone: 'waits', words: 'The daemon gave no ends of the record: its rows can’t be held against anything.' };
  let last = before ?? null;
  let chained = 0;
  let older = 0;
  let unsigned = 0;
  for (const entry of entries.toReversed()) {
    if (entry.row <= ends.base) {
      last = await sumOf(entry, last ?? '');
      older += 1;
      continue;
    }
    if (entry.row === ends.base + 1 && entry.what === RECORD_UNSIGNED) unsigned = entry.row;
    if (entry.sum === null || entry.sum === undefined) {
      if (last !== null) return { tone: 'failed', words: `Row ${entry.row} has lost its sum.` };
      older += 1;
      continue;
    }
    if (await sumOf(entry, last ?? '') !== entry.sum) {
      return { tone: 'failed', words: `Row ${entry.row} does not follow from the row before it: one of them was edited, or rows between them were removed.` };
    }
    last = entry.sum;
    chained += 1;
  }
  if ((ends.newest ?? ends.removed ?? null) !== last) return { tone: 'failed', words: 'Rows at the end were removed, or written by something else.' };
  if (unsigned) return { tone: 'failed', words: `Row ${unsigned} says that what is before it was not signed by this database’s key when the daemon found it; rows from ${unsigned} on are sound.` };
  return { tone: 'good', words: `${chained} rows follow from each other${older > 0 ? `; ${older} are from before the key` : ''}.` };
}

/**
 * @param {AuditPart} part
 * @param {string} known the key that the reader trusts; empty: the daemon's own
 * @returns {Promise<Finding>}
 */
export async function verifySignature({ ends, public_key: shown, signature }, known) {
  const given = known.trim() || shown;
  if (!ends || !signature || !given) return { tone: 'waits', words: 'The record is not signed: this database has no key.' };
  if (known.trim() && shown && known.trim() !== shown) return { tone: 'failed', words: 'It is signed by another key than the one you trust.' };
  try {
    const key = await crypto.subtle.importKey('raw', fromBase64(given.replace(/^ed25519:/, '')), { name: 'Ed25519' }, false, ['verify']);
    const right = await crypto.subtle.verify('Ed25519', key, fromBase64(signature), encoder.encode(statement(ends)));
    return right ? { tone: 'good', words: known.trim() ? 'The ends are signed by the key that you trust.' : 'The ends are signed by the database’s key.' }
      : { tone: 'failed', words: 'The signature is wrong: the record was changed without the database’s key.' };
  } catch (error) {
    return { tone: 'waits', words: `This browser can’t verify Ed25519 signatures (${error instanceof Error ? error.name : 'unknown'}): use \`codex-bridge audit\`.` };
  }
}

const READ_MAX = 20_000;
const PAGE = 500;

/** The newest part of the record, or all of it. @returns {Promise<AuditPart>} */
async function record() {
  const first = await get('audit', { limit: PAGE });
  const entries = [...first.entries];
  let page = first;
  while (page.next && entries.length < READ_MAX) {
    page = await get('audit', { limit: PAGE, before: page.next });
    entries.push(...page.entries);
  }
  return { ...first, before: page.before ?? null, entries, whole: !page.next };
}

/** @param {string} name @param {string} type @param {string} content */
function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A cell that a spreadsheet doesn't take for a formula. @param {unknown} value */
function cell(value) {
  const text = String(value ?? '');
  return `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

/** @param {Api.AuditEntryView[]} entries */
const asCsv = (entries) => [['row', 'at', 'actor', 'what', 'subject', 'detail', 'sum'],
  ...entries.map((one) => [one.row, one.at, one.actor, one.what, one.subject, one.detail, one.sum])]
  .map((row) => row.map(cell).join(',')).join('\r\n');

/** @param {Props.Verified} _ */
function Verified({ part }) {
  const [known, setKnown] = useState('');
  const [found, setFound] = useState(/** @type {{ chain: Finding, signature: Finding } | null} */ (null));
  useEffect(() => {
    if (!globalThis.crypto?.subtle) return;
    let left = false;
    setFound(null);
    Promise.all([verifyChain(part), verifySignature(part, known)]).then(([chain, signature]) => left || setFound({ chain, signature }));
    return () => { left = true; };
  }, [part, known]);
  if (!globalThis.crypto?.subtle) return html`<p class="remark">A browser verifies only on https or localhost. There: <code>codex-bridge audit</code>.</p>`;
  const shown = (/** @type {string} */ what, /** @type {Finding | undefined} */ finding) => html`<p>
    <${Badge} tone=${finding?.tone ?? 'waits'}>${what}<//> ${finding?.words ?? 'Looking…'}</p>`;
  return html`<section class="card verified" aria-live="polite"><h2>Verified in this browser</h2>
    ${shown('chain', found?.chain)}${shown('signature', found?.signature)}
    ${!part.whole && html`<p class="dim">The newest ${part.entries.length.toLocaleString()} rows; <code>codex-bridge audit</code> reads all.</p>`}
    <details><summary>Key</summary><p>The daemon’s: <code><${Text} text=${part.public_key ?? 'none'} /></code></p>
      <label class="field">The key that you trust, written down elsewhere
        <input value=${known} placeholder="ed25519:…" autocomplete="off" spellcheck=${false} onInput=${typed(setKnown)} /></label></details>
  </section>`;
}

/** @param {Props.Row} _ */
const Row = ({ entry }) => html`<div class="row entry"><span class="dim number">${entry.row}</span><${When} at=${entry.at} />
  <strong><${Line} text=${entry.what} length=${30} /></strong>
  <span class="what"><${Line} text=${entry.actor} length=${60} /> <code>${line(entry.subject, 60)}</code> <span class="dim">
    <${Line} text=${entry.detail} length=${200} /></span></span></div>`;

export function Screen() {
  const { value: part, error, reload } = useRows(record, []);
  const [sought, setSought] = useState('');
  const [what, setWhat] = useState('');
  const words = useMemo(() => [...new Set(part?.entries.map((entry) => entry.what))].sort(), [part]);
  const shown = useMemo(() => {
    const wanted = sought.trim().toLowerCase();
    return (part?.entries ?? []).filter((entry) => (!what || entry.what === what)
      && (!wanted || [entry.actor, entry.subject, entry.detail, entry.what].some((text) => text.toLowerCase().includes(wanted))));
  }, [part, sought, what]);
  if (!part) return error ? html`<${Problem} error=${error} what="record of acts" again=${reload} />` : html`<${Loading} />`;
  const all = { ok: undefined, ...part, whole: undefined };
  return html`
    <${Head} title="Audit" sub="What people did by hand">
      <button onClick=${() => save('audit.csv', 'text/csv', asCsv(shown))}>Export ${shown.length.toLocaleString()} as CSV</button>
      <button title="Can be verified elsewhere: codex-bridge audit --file" onClick=${() => save('audit.json', 'application/json', JSON.stringify(all, null, 1))}>Export all as JSON</button><//>
    <${Verified} part=${part} />
    <div class="filters"><input type="search" placeholder="Who, what, which id" aria-label="Filter the record" value=${sought} onInput=${typed(setSought)} />
      <label class="field inline">Act<select value=${what} onChange=${typed(setWhat)}>
        <option value="">all</option>${words.map((word) => html`<option value=${word}>${line(word, 40)}</option>`)}</select></label>
      <span class="dim" role="status">${counted(shown.length, 'row')}</span></div>
    ${shown.length === 0 ? html`<${Empty} title=${part.entries.length === 0 ? 'Nothing was done by hand' : 'Nothing fits'}>
        <p>${part.entries.length === 0 ? 'Decisions, retries, tokens and stops are written down here.' : 'Look for less.'}</p><//>`
      : html`<${Rows} rows=${shown} height=${41} label="Acts, newest first" id=${(entry) => String(entry.row)} draw=${(entry) => html`<${Row} entry=${entry} />`} />`}`;
}
