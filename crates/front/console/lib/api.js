// @ts-check
/** Calls of `/v1`, relative to the page, so that it works under any prefix. */

import { keepHalf, sessionHalf } from './session.js';

/** @typedef {import('../../console-types/api').Problem} Problem */
/** @typedef {import('../../console-types/ui').Session} Session */

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
  const problem = /** @type {Partial<Problem> | null} */ (await response.json().catch(() => null));
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
  const response = await send('DELETE', path);
  return response.status === 204 ? null : response.json();
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
