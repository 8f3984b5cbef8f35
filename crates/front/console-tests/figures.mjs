// Figures of the console against a daemon, as one JSON object on the standard output.
//
//     CONSOLE_KIT=DIR CONSOLE_URL='http://127.0.0.1:4141/console/#login=CODE' node figures.mjs
//
// The daemon's model must be the scripted one: conversations that are missing are made, and its commands are watched. The
// session needs `read`, `send`. CONSOLE_PID: the daemon's, to read its memory. CONSOLE_CONVERSATIONS: 1,000 unless told.

import { get } from 'node:http';
import { readFileSync, readdirSync } from 'node:fs';
import { launch, open, slowly, until } from './browser.mjs';

const url = new URL(process.env.CONSOLE_URL);
const base = url.href.replace(/#.*/, '');
const WANTED = Number(process.env.CONSOLE_CONVERSATIONS ?? 1000);
const LINES = 10_000;
const ROUNDS = 5;
const PAGES = 20;
const COMMANDS = 20;
const MESSAGES = 4;
const PATIENCE_MS = 300_000;

const log = (text) => console.error(`# ${text}`);
const sorted = (some) => some.toSorted((a, b) => a - b);
const part = (some, of) => Math.round(sorted(some)[Math.min(some.length - 1, Math.floor(some.length * of))] * 10) / 10;

/** As the daemon sends it to a browser. */
const sent = (path) => new Promise((resolve, reject) => get(`${base}${path}`, { headers: { 'accept-encoding': 'gzip' } }, async (answer) => {
  let bytes = 0;
  for await (const chunk of answer) bytes += chunk.length;
  if (answer.statusCode === 200) resolve(bytes);
  else reject(new Error(`${path}: ${answer.statusCode}`));
}).on('error', reject));

const memory = () => (process.env.CONSOLE_PID ? Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${process.env.CONSOLE_PID}/status`, 'utf8'))[1]) : null);

async function sizes() {
  const folder = new URL('../console/', import.meta.url);
  const files = readdirSync(folder, { recursive: true }).filter((name) => /\.(m?js|css|html|svg|webmanifest)$/.test(name));
  const all = await Promise.all(files.map(async (file) => [file, await sent(file)]));
  const sum = (some) => some.reduce((total, [, bytes]) => total + bytes, 0);
  const first = all.filter(([file]) => !/screens\/admin|sw\.js/.test(file));
  return { files: all.length, all_gz_bytes: sum(all), first_visit_gz_bytes: sum(first) };
}

/** Runs in the page, with the calls that the page itself uses. */
const inPage = (page, work, given) => page.evaluate(`(async () => (${work})(await import('./app.js'), ${JSON.stringify(given)}))()`);

async function idle(page) {
  await until(() => inPage(page, async ({ everything, isOver }) => {
    // Asking is work for the daemon, too.
    await new Promise((resolve) => setTimeout(resolve, 500));
    return (await everything('conversations', 'conversations', {}, 5000)).every((one) => !one.key.startsWith('figures-') || isOver(one));
  }), 'the work being done', PATIENCE_MS);
}

async function seed(page) {
  const known = await inPage(page, async ({ everything }) => (await everything('conversations', 'conversations', {}, 5000)).length);
  log(`${known} conversations are there`);
  for (let at = known; at < WANTED; at += 50) {
    await inPage(page, async ({ post }, [from, to]) => {
      for (let next = from; next < to; next += 1) await post('messages', { conversation: `figures-${next}`, text: `echo:Answer number ${next}` }, { 'idempotency-key': `figures-${next}` });
    }, [at, Math.min(at + 50, WANTED)]);
  }
  await idle(page);
}

/** Cold, with a slow processor: until the first screenful is painted, and until the whole list is known as well. */
async function list(browser, state) {
  const [first, whole] = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    const page = await open(browser, { size: 'phone', storageState: state });
    await slowly(page);
    await page.addInitScript((wanted) => {
      globalThis.figures = {};
      const painted = (name) => { figures[name] = 0; requestAnimationFrame(() => setTimeout(() => { figures[name] = performance.now(); })); };
      new MutationObserver(() => {
        if (!('first' in figures) && document.querySelector('.row')) painted('first');
        const counts = [...document.querySelectorAll('.chip .dim')].reduce((sum, one) => sum + Number(one.textContent), 0);
        if (!('whole' in figures) && counts >= wanted) painted('whole');
      }).observe(document, { childList: true, subtree: true, characterData: true });
    }, WANTED);
    await page.goto(`${base}#/conversations`);
    const found = await until(() => page.evaluate(() => (figures.first && figures.whole ? figures : null)), 'the list', 60_000);
    first.push(found.first);
    whole.push(found.whole);
    await page.context().close();
  }
  return { conversations: WANTED, processor: '4 times slower', first_screenful_ms: part(first, 0.5), list_complete_ms: part(whole, 0.5), rounds: whole.map(Math.round) };
}

/** From the answer's last byte until its first lines are painted. */
async function diff(browser, state, size) {
  const shown = Array.from({ length: LINES }, (_, at) => `${' +-'[at % 3]}    let timeout_${at} = Duration::from_secs(${at});`).join('\n');
  const request = {
    request_id: 'figures', code: 'figure', message_id: 'm', channel: 'local', conversation: 'figures', requester: 'you', kind: 'file_change', method: '', headline: `a diff of ${LINES} lines`, shown, digest: 'd', wants: 'approval',
    deciders: 'owner', state: 'open', attempt: 1, incarnation: '', created_at: new Date().toISOString(), deadline: new Date(Date.now() + 3600_000).toISOString(),
  };
  const page = await open(browser, { size, storageState: state });
  if (size === 'phone') await slowly(page);
  await page.route('**/v1/requests/figures', (route) => route.fulfill({ json: request }));
  await page.goto(`${base}#/requests`);
  await page.waitForSelector('main h1');
  const took = await page.evaluate(() => new Promise((resolve) => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector('.long .added')) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - performance.getEntriesByType('resource').findLast((one) => one.name.endsWith('requests/figures')).responseEnd)));
    }).observe(document.body, { childList: true, subtree: true });
    location.hash = '#/requests/figures';
  }));
  await page.context().close();
  return Math.round(took);
}

/** From the stamp that the daemon gives a step when it commits it until its text is in the page and painted. */
async function visible(browser, state) {
  const page = await open(browser, { storageState: state });
  await page.goto(`${base}#/conversations`);
  await page.waitForSelector('main h1');
  const send = () => inPage(page, async ({ post }, [commands]) => (await post('messages', {
    conversation: 'figures-steps', text: `${Array.from({ length: commands }, (_, at) => `shell:echo ${Date.now()}-${at}`).join(' ;; ')} ;; echo:done`,
  }, { 'idempotency-key': `figures-${Date.now()}` })).message_id, [COMMANDS]);
  await page.evaluate(() => {
    globalThis.taken = [];
    const known = new WeakSet();
    const look = () => {
      const fresh = [...document.querySelectorAll('.live-work .steps li')].filter((one) => !known.has(one));
      if (fresh.length === 0) return;
      fresh.forEach((one) => known.add(one));
      const stamps = fresh.map((one) => one.querySelector('time').dateTime);
      requestAnimationFrame(() => setTimeout(() => stamps.forEach((stamp) => taken.push(Date.now() - Date.parse(stamp)))));
    };
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  });
  for (let round = 0; round < MESSAGES; round += 1) {
    const id = await send();
    await page.evaluate((to) => { location.hash = `#/messages/${to}/conversation`; }, id);
    await page.locator(`.message[aria-label="Message ${id.slice(-8)}"] .phase.done`).waitFor({ timeout: PATIENCE_MS });
    await page.waitForTimeout(200);
  }
  const taken = await page.evaluate(() => taken);
  await page.context().close();
  return { steps: taken.length, p50_ms: part(taken, 0.5), p95_ms: part(taken, 0.95), max_ms: Math.max(...taken) };
}

/** Many browsers, each with a stream of its own; all see a new message. */
async function pages(browser, state) {
  const before = memory();
  const opened = [];
  for (let at = 0; at < PAGES; at += 1) {
    const page = await open(browser, { storageState: state });
    await page.goto(`${base}#/conversations`);
    await page.waitForSelector('.row');
    opened.push(page);
  }
  const word = `to-all-${Date.now()}`;
  const began = Date.now();
  await inPage(opened[0], ({ post }, [text]) => post('messages', { conversation: 'figures-all', text }, { 'idempotency-key': text }), [`echo:${word}`]);
  await Promise.all(opened.map((page) => page.getByText(word).first().waitFor()));
  const took = Date.now() - began;
  const found = { open: PAGES, seen_by_all_ms: took, daemon_kib_before: before, daemon_kib: memory() };
  for (const page of opened) await page.context().close();
  return found;
}

const browser = await launch();
try {
  const page = await open(browser);
  await page.goto(url.href);
  await page.getByRole('navigation').waitFor();
  const state = await page.context().storageState({ indexedDB: true });
  const found = { ...(await sizes()) };
  log('sizes');
  await seed(page);
  // A page that is live itself would take part in what is measured.
  await page.goto('about:blank');
  found.list = await list(browser, state);
  log('list');
  found.diff = { lines: LINES, painted_ms: await diff(browser, state, 'desktop'), painted_phone_ms: await diff(browser, state, 'phone') };
  log('diff');
  found.commit_to_visible = await visible(browser, state);
  log('commit to visible');
  found.pages = await pages(browser, state);
  console.log(JSON.stringify(found, null, 2));
} finally {
  await browser.close();
}
