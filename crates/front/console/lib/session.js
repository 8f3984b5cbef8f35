// @ts-check
/**
 * The session. It has two halves: a cookie that scripts can't read, and one that only this origin can read, kept in
 * IndexedDB. A request needs both, because a cookie alone goes to every port of the machine.
 */

/** @typedef {import('../../console-types/ui').Session} Session */

const STORE = 'session';
const KEY = 'half';

/** @type {Promise<IDBDatabase> | null} */
let opened = null;

function database() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open('codex-bridge', 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opened;
}

/**
 * @template T
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest<T>} act
 * @returns {Promise<T>}
 */
async function stored(mode, act) {
  const transaction = (await database()).transaction(STORE, mode);
  const request = act(transaction.objectStore(STORE));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

/** Each page keeps it in memory as well: a browser that forbids storage still works until it is reloaded. */
let half = '';

/** The half that this origin keeps; empty without a session. */
export async function sessionHalf() {
  if (!half) half = (await stored('readonly', (store) => store.get(KEY)).catch(() => '')) ?? '';
  return half;
}

/** @param {string} next */
export async function keepHalf(next) {
  half = next;
  /** @type {(store: IDBObjectStore) => IDBRequest<any>} */
  const act = (store) => (next ? store.put(next, KEY) : store.delete(KEY));
  await stored('readwrite', act).catch(() => undefined);
}

/** Takes the one-time code out of the address, so that it stays in no history. */
export function takeLoginCode() {
  const found = /^#login=(.+)$/.exec(location.hash);
  if (!found?.[1]) return null;
  history.replaceState(null, '', `${location.pathname}${location.search}#/requests`);
  return decodeURIComponent(found[1]);
}
