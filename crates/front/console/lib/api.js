// @ts-check
/**
 * The session, and calls of `/v1`, relative to the page, so that it works under any prefix.
 *
 * A session has two halves: a cookie that scripts can't read, and one that only this origin can read, kept in IndexedDB. A
 * request needs both, because a cookie alone goes to every port of the machine.
 */

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

export const SESSION_HEADER = 'codex-bridge-session';
const PATIENCE_MS = 30_000;

/** Why a call failed, in the daemon's words where it gave some. */
export class ApiError extends Error {
  /** @param {number} status 0: the daemon was not reached @param {string} detail */
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** @param {string} path below `/v1/` */
export const address = (path) => new URL(`../v1/${path}`, document.baseURI).href;

/** @returns {Promise<Record<string, string>>} */
export async function sessionHeaders() {
  const half = await sessionHalf();
  return half ? { [SESSION_HEADER]: half } : {};
}

/** @type {Set<() => void>} */
const signedOut = new Set();

/** Calls back when the daemon no longer knows the session. @param {() => void} callback */
export function onSignedOut(callback) {
  signedOut.add(callback);
  return () => void signedOut.delete(callback);
}

/** @param {Response} response */
export async function failure(response) {
  const problem = /** @type {Partial<Api.Problem> | null} */ (await response.json().catch(() => null));
  if (response.status === 401) signedOut.forEach((callback) => callback());
  return new ApiError(response.status, problem?.detail || `the daemon answered ${response.status}`);
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{ body?: unknown, headers?: Record<string, string> }} [more]
 * @returns {Promise<Response>}
 */
async function send(method, path, { body, headers } = {}) {
  /** @type {RequestInit} */
  const request = {
    method,
    headers: { accept: 'application/json', ...(await sessionHeaders()), ...headers },
    credentials: 'same-origin',
    cache: 'no-store',
    signal: AbortSignal.timeout(PATIENCE_MS),
  };
  if (body !== undefined) {
    request.headers = { ...request.headers, 'content-type': 'application/json' };
    request.body = JSON.stringify(body);
  }
  const response = await fetch(address(path), request).catch((error) => {
    const slow = error instanceof DOMException && error.name === 'TimeoutError';
    throw new ApiError(0, slow ? 'the daemon did not answer in 30 s' : 'the daemon can’t be reached: is it running?');
  });
  if (!response.ok) throw await failure(response);
  return response;
}

/**
 * @param {string} path
 * @param {Record<string, string | number | boolean | null | undefined>} [query] absent values are left out
 * @returns {Promise<any>}
 */
export async function get(path, query = {}) {
  const wanted = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const search = new URLSearchParams(wanted.map(([name, value]) => [name, String(value)]));
  return (await send('GET', search.size > 0 ? `${path}?${search}` : path)).json();
}

/** @param {string} path @param {unknown} [body] @param {Record<string, string>} [headers] @returns {Promise<any>} */
export async function post(path, body = {}, headers = {}) {
  return (await send('POST', path, { body, headers })).json();
}

/** @param {string} path @returns {Promise<any>} */
export async function remove(path) {
  const answer = await (await send('DELETE', path)).text();
  return answer ? JSON.parse(answer) : null;
}

/** A file's bytes. @param {string} path */
export async function download(path) {
  return (await send('GET', path)).blob();
}

/** Exchanges a one-time code for a session. @param {string} code @returns {Promise<Session>} */
export async function signIn(code) {
  const session = /** @type {Session} */ (await post('session', { code }));
  await keepHalf(session.half ?? '');
  return session;
}

/** @returns {Promise<Session>} */
export const whoAmI = () => get('session');

export async function signOut() {
  await remove('session');
  await keepHalf('');
}

/**
 * All pages of a list, up to `most` entries.
 * @template T
 * @param {string} path
 * @param {string} field
 * @param {Record<string, string | number>} [query]
 * @param {number} [most]
 * @returns {Promise<T[]>}
 */
export async function everything(path, field, query = {}, most = 2000) {
  /** @type {T[]} */
  const found = [];
  let before = null;
  do {
    const page = await get(path, { limit: 500, ...query, before });
    found.push(...page[field]);
    before = page.next;
  } while (before && found.length < most);
  return found;
}
