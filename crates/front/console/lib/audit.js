// @ts-check
/**
 * The record of what people did, verified here: each row is summed with the one before, and the ends are signed with the
 * database's key (`docs/formats.md`). The daemon is not believed: it gives rows, sums, signature and key.
 */

/** @typedef {{ row: number, at: string, at_ms: number, actor: string, what: string, subject: string, detail: string, sum: string | null }} Entry */
/** @typedef {{ removed: string | null, newest: string | null, base: number }} Ends */
/** @typedef {{ entries: Entry[], ends: Ends | null, before: string | null, public_key: string | null, signature: string | null }} Part */
/** @typedef {{ tone: 'good' | 'failed' | 'waits', words: string }} Finding */

const RECORD_UNSIGNED = 'record-unsigned';
const encoder = new TextEncoder();

/** Each field with its length in bytes, so that no text can move from one to the next. @param {string[]} fields */
const framed = (fields) => fields.map((field) => `${encoder.encode(field).length}:${field}`).join('');

/** @param {string} text */
async function sha256(text) {
  const digest = await crypto.subtle.digest('SHA-256', encoder.encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** @param {Entry} entry @param {string} before */
export const sumOf = (entry, before) => sha256(framed([
  before, String(entry.row), String(entry.at_ms), entry.actor, entry.what, entry.subject, entry.detail,
]));

/** What the key signs. @param {Ends} ends */
export const statement = (ends) => `codex-bridge audit 1\n${framed([String(ends.base), ends.removed ?? '', ends.newest ?? ''])}`;

/** @param {string} text */
const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/**
 * Goes along the record, oldest first.
 * @param {Part} part the whole record, or its newest part
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
  if ((ends.newest ?? ends.removed) !== last) return { tone: 'failed', words: 'Rows at the end were removed, or written by something else.' };
  if (unsigned) return { tone: 'failed', words: `Row ${unsigned} says that what is before it was not signed by this database’s key when the daemon found it; rows from ${unsigned} on are sound.` };
  return { tone: 'good', words: `${chained} rows follow from each other${older > 0 ? `; ${older} are from before the key` : ''}.` };
}

/**
 * @param {Part} part
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
