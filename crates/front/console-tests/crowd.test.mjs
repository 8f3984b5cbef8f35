// 200 questions of the real Codex at once, on a phone: all are shown, each is decided, and of the page and a terminal that
// decide the same one the first wins and the other is told.
//
//     CONSOLE_KIT=DIR CONSOLE_COMMAND='{"argv":[…],"env":{…}}' CONSOLE_QUESTIONS=200 node --test crowd.test.mjs

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, open, until } from './browser.mjs';
import { run, signInAddress } from './daemon.mjs';

const COUNT = Number(process.env.CONSOLE_QUESTIONS ?? 200);
/** One of so many is decided in a terminal at the same moment. */
const RACED = 10;
const PATIENCE_MS = 60_000;
let browser;
let page;

before(async () => {
  browser = await launch();
  page = await open(browser, { size: 'phone' });
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(await signInAddress('--scopes', 'read,approve'));
});
after(() => browser.close());

/** How long a press waits for what a faster terminal may take away. */
const RACE_MS = 2000;

async function press(card, name, timeout = PATIENCE_MS) {
  const button = card.getByRole('button', { name, exact: true });
  await button.scrollIntoViewIfNeeded({ timeout });
  await until(() => button.isEnabled({ timeout }), `${name} becoming possible`, timeout);
  await button.tap({ timeout });
}

const stateOf = (id) => page.evaluate(async (request) => {
  const { get } = await import('./app.js');
  return get(`requests/${request}`);
}, id);

test('all are shown', { timeout: PATIENCE_MS }, async () => {
  await page.locator('.question').nth(COUNT - 1).waitFor({ state: 'attached' });
  assert.equal(await page.locator('.question').count(), COUNT);
  await page.getByText(`Codex asks ${COUNT} questions`).waitFor();
});

test('each is decided once', { timeout: 5 * PATIENCE_MS }, async () => {
  const ids = await page.locator('.question').evaluateAll((cards) => cards.map((card) => card.dataset.request));
  const won = { page: 0, terminal: 0 };
  for (const [at, id] of ids.entries()) {
    const card = page.locator(`[data-request="${id}"]`);
    const code = await card.locator('code').first().innerText();
    if (at % RACED === 0) {
      // A process takes longer to start than a press: every second terminal begins first, the others with the page's call.
      const begins = at % (2 * RACED) === 0 ? Promise.resolve() : page.waitForRequest(/\/decision$/);
      const [terminal] = await Promise.all([begins.then(() => run('decline', code)), press(card, 'Accept', RACE_MS).catch(() => undefined)]);
      const settled = await until(async () => { const found = await stateOf(id); return found.state === 'open' ? null : found; }, 'a decision');
      const isTerminals = settled.via === 'cli';
      won[isTerminals ? 'terminal' : 'page'] += 1;
      assert.equal(settled.decision ?? settled.state, isTerminals ? 'decline' : 'accept', JSON.stringify(settled));
      assert.equal(terminal.code === 0, isTerminals, JSON.stringify([terminal, settled]));
      if (!isTerminals) assert.match(terminal.stdout + terminal.stderr, /accept|approved/, JSON.stringify(terminal));
      if (isTerminals) await card.getByText(/declined/).first().waitFor();
    } else {
      await press(card, at % 2 === 0 ? 'Accept' : 'Decline');
    }
  }
  await page.getByText('Nothing waits for you').or(page.getByText('What Codex asks')).first().waitFor();
  for (const id of ids) assert.ok(['accept', 'decline'].includes((await stateOf(id)).decision), id);
  assert.ok(won.page > 0 && won.terminal > 0, JSON.stringify(won));
  console.log(`# races won: ${JSON.stringify(won)}`);
  assert.deepEqual(page.wrong, []);
});
