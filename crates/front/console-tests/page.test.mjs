// What the page must do whatever the daemon says, against `fake.mjs`.
//
//     CONSOLE_KIT=DIR node --test crates/front/console-tests/page.test.mjs

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readFileSync, readdirSync } from 'node:fs';
import { SIZES, THEMES, launch, open, slowly, until, violations } from './browser.mjs';
import { fakeDaemon } from './fake.mjs';
import { SCREENS } from './screens.mjs';
import { serve } from './serve.mjs';

/** All that a browser can load of the console, each file as the daemon sends it. */
const ALL_BYTES = 60_000;
/** What it loads for the inbox. */
const FIRST_BYTES = 50_000;
const PAINTED_MS = 200;
const CORPUS = [
  '<script>alert(1)</script>', '"><img src=x onerror=alert(2)>', "'-alert(3)-'", '<svg onload=alert(4)>', '[x](javascript:alert(5))', '[x](data:text/html,<script>alert(6)</script>)',
  '`${alert(7)}`', '{{constructor.constructor("alert(8)")()}}', '</textarea><iframe srcdoc="<script>alert(9)</script>">', 'safe\u202egnp.exe', '\u2066\u2067\u2069', 'a\u200bb\u00adc', '\u001b[31mred\u001b[0m\u001b]8;;https://evil\u0007link\u001b]8;;\u0007',
  'nul\u0000bell\u0007', '\ud800lone', '&lt;b&gt;&amp;', 'http://user:pass@evil.example/', 'https://ok.example/"onmouseover="alert(10)', '**', '```\nunclosed', '> '.repeat(200), '- '.repeat(500), '*'.repeat(3000), 'x'.repeat(5000),
].join('\n');

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Runs against a page and a fake daemon of its own. */
function on(name, options, run) {
  test(name, { timeout: 120_000 }, async () => {
    const served = await serve({ prefix: options.prefix ?? '', fake: fakeDaemon(options.rows) });
    const page = await open(browser, options);
    try {
      await run({ page, ...served, go: (hash) => page.goto(`${served.url}#/${hash}`) });
      assert.deepEqual(page.wrong, []);
    } finally {
      await page.context().close();
      served.close();
    }
  });
}

async function palette(page) {
  await page.keyboard.press('Control+k');
  const field = page.getByRole('combobox', { name: 'Go to' });
  await field.waitFor();
  return field;
}

test('all files together are small', () => {
  const folder = new URL('../console/', import.meta.url);
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() && /\.(m?js|css|html|svg|webmanifest)$/.test(entry.name));
  const total = files.reduce((sum, entry) => sum + gzipSync(readFileSync(`${entry.parentPath}/${entry.name}`), { level: 9 }).length, 0);
  console.log(`# ${files.length} files, ${total} bytes gz`);
  assert.ok(total <= ALL_BYTES, `${total} bytes`);
});

for (const size of Object.keys(SIZES)) {
  for (const theme of THEMES) {
    on(`axe finds nothing, ${size}, ${theme}`, { size, theme }, async ({ page, go }) => {
      for (const [name, [hash, ready]] of Object.entries(SCREENS)) {
        await go(hash);
        await page.waitForSelector(ready);
        assert.deepEqual(await violations(page), [], name);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${name} is ${wide} px too wide`);
      }
      await palette(page);
      assert.deepEqual(await violations(page), [], 'palette');
      await page.keyboard.press('Escape');
      await page.keyboard.press('?');
      await page.getByRole('dialog').waitFor();
      assert.deepEqual(await violations(page), [], 'keys');
    });
  }
}

/** What of the texts became anything but text. */
const harm = () => ({
  elements: document.querySelectorAll('#app script, #app iframe, #app img, #app [onerror], #app [onload], #app [onmouseover]').length,
  links: [...document.querySelectorAll('a')].map((link) => link.protocol).filter((protocol) => !['http:', 'https:'].includes(protocol)),
  named: [...document.querySelectorAll('a[target]')].filter((link) => link.href.includes('@')).length,
  // eslint-disable-next-line no-control-regex
  hidden: /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/.test(document.body.innerText),
});

on('hostile texts stay texts', { rows: { evil: CORPUS } }, async ({ page, go }) => {
  const harmless = async (name) => assert.deepEqual(await page.evaluate(harm), { elements: 0, links: [], named: 0, hidden: false }, name);
  for (const [name, [hash, ready]] of Object.entries(SCREENS)) {
    await go(hash);
    await page.waitForSelector(ready === '.verified .badge.good' ? '.verified .badge' : ready);
    await page.evaluate(() => document.querySelectorAll('details').forEach((one) => { one.open = true; }));
    await page.waitForTimeout(150);
    await harmless(name);
  }
  await palette(page);
  await page.keyboard.type('alert');
  await page.getByRole('dialog').getByRole('option').nth(20).waitFor();
  await harmless('palette');
  await page.keyboard.press('Escape');
  await go('policy');
  await page.getByRole('textbox', { name: 'Command' }).fill('x');
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByRole('button', { name: 'Look' }).click();
  await page.waitForSelector('.answer-why');
  await page.waitForSelector('td');
  await harmless('explained');
  await go('dead');
  await page.getByRole('button', { name: 'Discard' }).first().click();
  await page.getByRole('dialog').waitFor();
  await harmless('asked again');
});

on('acceptable only when its end was seen', { rows: { questions: 2, diffLines: 600 } }, async ({ page, go, fake }) => {
  await go('requests/r0001');
  const accept = page.getByRole('button', { name: 'Accept', exact: true });
  await accept.waitFor();
  assert.equal(await accept.isDisabled(), true);
  await page.keyboard.press('a');
  assert.equal(fake.rows.requests[1].state, 'open');
  await until(async () => {
    await page.evaluate(() => { const long = document.querySelector('.long'); long.scrollTop = long.scrollHeight; });
    return !(await accept.isDisabled());
  }, 'Accept becoming possible');
  await page.keyboard.press('a');
  await page.getByRole('dialog').getByRole('button', { name: 'Accept', exact: true }).click();
  await until(() => fake.rows.requests[1].state === 'accept', 'the decision');
});

on('keys decide and move', { rows: { questions: 4 } }, async ({ page, go, fake }) => {
  await go('requests');
  await page.waitForSelector('.question.current');
  const current = () => page.getAttribute('.question.current', 'data-request');
  const first = await current();
  await page.keyboard.press('j');
  await until(async () => (await current()) !== first, 'the next question');
  await page.keyboard.press('k');
  await until(async () => (await current()) === first, 'the first question');
  await page.keyboard.press('d');
  await until(() => fake.rows.requests[0].state === 'decline', 'the decline');
  assert.equal(fake.rows.requests[1].state, 'open');
  await page.keyboard.press('?');
  await page.getByRole('dialog').getByText('accept, once its end was in sight').first().waitFor();
});

on('a dialog keeps keys from deciding', { rows: { questions: 1 } }, async ({ page, go, fake }) => {
  await go('requests');
  await page.waitForSelector('.question.current');
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('d');
  await page.keyboard.press('a');
  await page.waitForTimeout(200);
  assert.equal(fake.rows.requests[0].state, 'open');
});

on('decided elsewhere is told', { rows: { questions: 2 } }, async ({ page, go, fake }) => {
  await go('requests');
  await page.waitForSelector('[data-request="r0000"]');
  Object.assign(fake.rows.requests[0], { state: 'accept', decision: 'accept', by: 'ann', via: 'terminal', decided_at: new Date().toISOString() });
  fake.tell('request', { ...fake.rows.requests[0] });
  await page.getByText(/accepted by ann \(terminal\)/).waitFor();
});

on('swipes decide on a phone', { size: 'phone', rows: { questions: 1 } }, async ({ page, go, fake }) => {
  await go('requests');
  await page.waitForSelector('button.primary:not(:disabled)');
  const client = await page.context().newCDPSession(page);
  const box = await page.locator('.question h2').boundingBox();
  const touch = (type, x) => client.send('Input.dispatchTouchEvent', { type, touchPoints: type === 'touchEnd' ? [] : [{ x, y: box.y + 10 }] });
  await touch('touchStart', 330);
  for (let x = 320; x >= 60; x -= 20) await touch('touchMove', x);
  await touch('touchEnd', 60);
  await until(() => fake.rows.requests[0].state === 'decline', 'the decline');
});

on('200 questions on a phone', { size: 'phone', rows: { questions: 200, diffLines: 30 } }, async ({ page, go, fake }) => {
  await slowly(page);
  await go('requests');
  await until(async () => (await page.locator('.question').count()) === 200, 'all questions', 20_000);
  for (const id of ['r0000', 'r0099', 'r0198']) {
    const card = page.locator(`[data-request="${id}"]`);
    await card.scrollIntoViewIfNeeded();
    await card.getByRole('button', { name: 'Decline', exact: true }).click();
    await until(() => fake.rows.requests.find((one) => one.request_id === id).state === 'decline', `the decline of ${id}`);
  }
});

on('a long diff is painted at once', { rows: { questions: 2, diffLines: 10_000 } }, async ({ page, go }) => {
  await go('dead');
  await page.waitForSelector('.dead');
  const took = await page.evaluate(() => new Promise((resolve) => {
    let began = 0;
    const fetched = window.fetch;
    window.fetch = async (...given) => { const answer = await fetched(...given); const body = await answer.json().catch(() => null); if (String(given[0]).includes('r0001')) began = performance.now(); return new Response(JSON.stringify(body), { status: answer.status }); };
    new MutationObserver((_, observer) => { if (!document.querySelector('.long .added')) return; observer.disconnect(); requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began))); }).observe(document.body, { childList: true, subtree: true });
    location.hash = '#/requests/r0001';
  }));
  console.log(`# 10,000 lines painted in ${Math.round(took)} ms`);
  assert.ok(took <= PAINTED_MS, `${took} ms`);
});

on('1,000 conversations on a phone, cold', { size: 'phone', rows: { conversations: 1000 } }, async ({ page, go }) => {
  await slowly(page);
  await go('conversations');
  await page.waitForSelector('.row');
  const took = await page.evaluate(() => performance.now());
  const drawn = await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => setTimeout(() => resolve(performance.now()))); }));
  console.log(`# first rows ${Math.round(took)} ms, painted ${Math.round(drawn)} ms after the navigation began, processor slowed 4 times`);
  await until(() => page.evaluate(() => document.querySelector('.chips')?.textContent.includes('125')), 'all of them');
});

on('the search looks into answers', {}, async ({ page, go }) => {
  await go('conversations');
  await page.waitForSelector('.row');
  await page.keyboard.press('/');
  await page.keyboard.type('server needs');
  await page.getByText('searched all 812 messages').waitFor();
  await page.getByRole('list', { name: 'Found messages' }).getByRole('link').waitFor();
});

on('one stream for all pages', {}, async ({ page, url, fake, go }) => {
  await go('requests');
  await page.waitForSelector('.question');
  const other = await open(browser, { context: page.context() });
  await other.goto(`${url}#/requests`);
  await other.waitForSelector('.question');
  assert.equal(fake.streams.size, 1);
  Object.assign(fake.rows.requests[0], { state: 'decline', by: 'ann', via: 'terminal', decided_at: new Date().toISOString() });
  fake.tell('request', { ...fake.rows.requests[0] });
  for (const one of [page, other]) await one.getByText(/declined by ann/).waitFor();
  await page.close();
  await until(() => fake.streams.size === 1 && fake.state.calls.filter((call) => call.name === 'events').length === 2, 'the other page taking over');
  assert.ok(fake.state.calls.findLast((call) => call.name === 'events').headers['last-event-id'], 'it resumes');
  await page.context().newPage();
});

on('a lost stream comes back', {}, async ({ page, go, fake }) => {
  await go('requests');
  await page.waitForSelector('.question');
  await until(() => fake.streams.size === 1, 'the stream');
  fake.state.down = true;
  fake.drop();
  await page.getByText('The connection is lost').waitFor();
  fake.state.down = false;
  const began = Date.now();
  await until(() => fake.streams.size === 1, 'the next stream', 1000);
  console.log(`# reconnected after ${Date.now() - began} ms`);
  assert.ok(fake.state.calls.findLast((call) => call.name === 'events').headers['last-event-id']);
  await page.getByText('The connection is lost').waitFor({ state: 'detached' });
});

on('a code becomes a session', {}, async ({ page, url, fake }) => {
  fake.state.signedIn = false;
  await page.goto(`${url}#login=good`);
  await page.waitForSelector('.question');
  assert.equal(new URL(page.url()).hash, '#/requests');
  assert.equal(fake.state.calls.findLast((call) => call.name === 'requests').headers['codex-bridge-session'], 'half');
  await page.reload();
  await page.waitForSelector('.question');
  assert.equal(fake.state.calls.findLast((call) => call.name === 'requests').headers['codex-bridge-session'], 'half');
});

on('a used code says what to do', {}, async ({ page, url, fake }) => {
  fake.state.signedIn = false;
  await page.goto(`${url}#login=used`);
  await page.getByText('codex-bridge console', { exact: true }).waitFor();
});

on('a session that ends says what to do', {}, async ({ page, go, fake }) => {
  await go('requests');
  await page.waitForSelector('.question');
  fake.state.signedIn = false;
  fake.drop();
  await page.getByText('The session ended').waitFor();
});

on('it runs under any prefix', { prefix: '/some/where' }, async ({ page, go }) => {
  await go('requests');
  await page.waitForSelector('.question');
});

on('an edited record is found out', {}, async ({ page, go, fake }) => {
  fake.rows.audit.entries[3].actor = 'somebody else';
  await go('audit');
  await page.getByText(/does not follow from the row before it/).waitFor();
  assert.equal(await page.locator('.verified .badge.good').count(), 1);
});

on('a token is shown once', {}, async ({ page, go }) => {
  await go('access');
  await page.getByRole('button', { name: 'Make a token' }).click();
  await page.getByLabel('Name').fill('robot');
  await page.getByRole('button', { name: 'Make it' }).click();
  assert.match(await page.getByLabel('The token').inputValue(), /^cb_/);
  await page.getByRole('button', { name: 'I have it' }).click();
  await page.getByRole('button', { name: 'Revoke robot' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke', exact: true }).click();
  await page.getByText('robot is revoked').waitFor();
  assert.equal(await page.getByText('cb_').count(), 0);
});

on('the inbox loads a part of them', {}, async ({ page, go }) => {
  const loaded = [];
  page.on('response', (response) => { if (new URL(response.url()).pathname.includes('/console/')) loaded.push(response.body()); });
  await go(SCREENS.inbox[0]);
  await page.waitForSelector(SCREENS.inbox[1]);
  const total = (await Promise.all(loaded)).reduce((sum, body) => sum + gzipSync(body, { level: 9 }).length, 0);
  console.log(`# the inbox: ${loaded.length} files, ${total} bytes gz`);
  assert.ok(total <= FIRST_BYTES, `${total} bytes`);
});

const option = (page) => page.getByRole('dialog').getByRole('option', { selected: true });

on('Ctrl-K goes to a screen', {}, async ({ page, go }) => {
  await go('requests');
  await page.waitForSelector('.question');
  const field = await palette(page);
  assert.equal(await field.evaluate((one) => one === document.activeElement), true);
  await page.keyboard.type('aud');
  await until(async () => (await option(page).textContent()).trim().startsWith('Audit'), 'the screen');
  assert.equal(await field.getAttribute('aria-activedescendant'), await option(page).getAttribute('id'));
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
  assert.equal(await page.getByRole('dialog').count(), 0);
});

on('Ctrl-K finds conversations and messages', {}, async ({ page, go }) => {
  await go('audit');
  await page.waitForSelector('.verified');
  await palette(page);
  await page.keyboard.type('notes 8');
  await until(async () => (await option(page).textContent()).includes('release notes 8'), 'the conversation');
  await page.getByRole('option', { name: /the server needs 8 s/ }).waitFor();
  await page.keyboard.press('ArrowUp');
  await until(async () => (await option(page).textContent()).includes('the server needs 8 s'), 'the last one');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'release notes 8' }).waitFor();
});

on('Ctrl-K starts a task', {}, async ({ page, go }) => {
  for (const from of ['requests', 'tasks']) {
    await go(from);
    await page.waitForSelector('main h1');
    await palette(page);
    await page.keyboard.type('start a');
    await until(async () => (await option(page).textContent()).includes('Start a task'), 'the act');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByRole('textbox', { name: 'Directory' }).waitFor();
    assert.equal(new URL(page.url()).hash, '#/tasks');
    await page.keyboard.press('Escape');
  }
});
