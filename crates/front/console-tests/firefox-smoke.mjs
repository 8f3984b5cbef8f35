// Debian's Firefox by WebDriver BiDi, which it speaks itself: signs in, sees the inbox, decides one question.
//
//     node firefox-smoke.mjs
//     CONSOLE_URL='http://127.0.0.1:4141/console/#login=CODE' node firefox-smoke.mjs
//
// Without CONSOLE_URL against `fake.mjs`. CONSOLE_FIREFOX is the browser, `/usr/bin/firefox-esr` when absent.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fakeDaemon } from './fake.mjs';
import { serve } from './serve.mjs';

const START_MS = 60_000;
const PATIENCE_MS = 20_000;

/** Starts Firefox and says where it listens. */
function start(profile) {
  const child = spawn(process.env.CONSOLE_FIREFOX ?? '/usr/bin/firefox-esr', ['--headless', '--no-remote', '--remote-debugging-port', '0', '--profile', profile, 'about:blank'],
    { env: { ...process.env, HOME: profile }, stdio: ['ignore', 'ignore', 'pipe'] });
  const address = new Promise((resolve, reject) => {
    let text = '';
    child.stderr.on('data', (chunk) => {
      text += chunk;
      const found = /WebDriver BiDi listening on (ws:\/\/\S+)/.exec(text);
      if (found) resolve(found[1]);
    });
    child.on('error', reject);
    child.on('exit', (status) => reject(new Error(`firefox ended with ${status}: ${text.slice(-2000)}`)));
    setTimeout(() => reject(new Error(`firefox did not listen in ${START_MS} ms: ${text.slice(-2000)}`)), START_MS).unref();
  });
  return { child, address };
}

/** Commands over the socket, and the events that it tells. */
async function connect(address) {
  const socket = new WebSocket(`${address}/session`);
  await new Promise((resolve, reject) => { socket.onopen = resolve; socket.onerror = (event) => reject(event.error ?? new Error('no connection')); });
  const waiting = new Map();
  const events = [];
  let newest = 0;
  socket.onmessage = ({ data }) => {
    const { id, type, result, message, method, params } = JSON.parse(data);
    if (type === 'event') events.push({ method, params });
    else if (type === 'success') waiting.get(id)?.resolve(result);
    else waiting.get(id)?.reject(new Error(message));
  };
  const send = (method, params) => new Promise((resolve, reject) => {
    newest += 1;
    waiting.set(newest, { resolve, reject });
    socket.send(JSON.stringify({ id: newest, method, params }));
  });
  return { send, events, close: () => socket.close() };
}

async function drive(send) {
  await send('session.new', { capabilities: {} });
  await send('session.subscribe', { events: ['log.entryAdded'] });
  const { contexts: [{ context }] } = await send('browsingContext.getTree', {});
  const evaluate = async (expression) => {
    const { type, result, exceptionDetails } = await send('script.evaluate', { expression, target: { context }, awaitPromise: true, resultOwnership: 'none' });
    if (type === 'exception') throw new Error(exceptionDetails.text);
    return result;
  };
  const until = async (expression, what) => {
    for (const end = Date.now() + PATIENCE_MS; Date.now() < end;) {
      const found = await evaluate(expression);
      if (found.sharedId || found.value) return found;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`${what} did not happen in ${PATIENCE_MS} ms`);
  };
  const click = async (expression, what) => {
    const { sharedId } = await until(expression, what);
    const at = { type: 'pointerMove', x: 0, y: 0, origin: { type: 'element', element: { sharedId } } };
    await send('input.performActions', { context, actions: [{ type: 'pointer', id: 'mouse', actions: [at, { type: 'pointerDown', button: 0 }, { type: 'pointerUp', button: 0 }] }] });
  };
  return { go: (url) => send('browsingContext.navigate', { context, url, wait: 'complete' }), evaluate, until, click };
}

const fake = fakeDaemon({ questions: 2 });
fake.state.signedIn = Boolean(process.env.CONSOLE_URL);
const served = process.env.CONSOLE_URL ? null : await serve({ fake });
const profile = mkdtempSync(join(tmpdir(), 'cb-firefox-'));
const { child, address } = start(profile);
try {
  const { send, events, close } = await connect(await address);
  const { go, evaluate, until, click } = await drive(send);
  await go(process.env.CONSOLE_URL ?? `${served.url}#login=good`);
  await until("document.querySelector('main h1')?.textContent === 'Inbox'", 'the inbox');
  const { value: id } = await until("document.querySelector('.question.current')?.dataset.request", 'a question');
  assert.equal((await evaluate('location.hash')).value, '#/requests');
  await click(`[...document.querySelectorAll('[data-request="${id}"] button')].find((one) => one.textContent.startsWith('Decline'))`, 'the button');
  await until("document.querySelector('.notice')?.textContent.includes('declined')", 'the decision');
  if (served) assert.equal(fake.rows.requests.find((one) => one.request_id === id).state, 'decline');
  const wrong = events.filter(({ method, params }) => method === 'log.entryAdded' && params.level === 'error').map(({ params }) => params.text);
  assert.deepEqual(wrong, []);
  console.log('firefox: signed in, saw the inbox, declined a question');
  await send('browser.close', {});
  close();
} finally {
  child.kill();
  await new Promise((resolve) => { if (child.exitCode === null && child.signalCode === null) child.once('exit', resolve); else resolve(); });
  served?.close();
  rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
}
