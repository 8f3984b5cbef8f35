// The daemon is killed under an open page, in the middle of an answer: the page finds the next one within a second of its
// start, and shows each event once.
//
//     CONSOLE_KIT=DIR CONSOLE_COMMAND='{"argv":[…],"env":{…}}' node --test restart.test.mjs

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launch, open, until } from './browser.mjs';
import { signInAddress, startDaemon } from './daemon.mjs';

const RECONNECT_MS = 1000;
const DELTAS = 150;
const KILLS = 3;

/** Gathers the events of the page's streams as they arrive, by the module that reads them. */
const GATHER = () => {
  window.gathered = [];
  const read = Response.prototype.json;
  void read;
  const decode = TextDecoderStream;
  window.TextDecoderStream = class extends decode {
    constructor(...args) {
      super(...args);
      const [kept, gathered] = super.readable.tee();
      const reader = gathered.getReader();
      const pump = () => reader.read().then(({ done, value }) => { if (!done) { window.gathered.push(value); pump(); } }, () => undefined);
      pump();
      Object.defineProperty(this, 'readable', { value: kept });
    }
  };
};

test('a killed daemon loses the page no event', { timeout: 180_000 }, async () => {
  let daemon = await startDaemon();
  const browser = await launch();
  try {
    const page = await open(browser);
    await page.addInitScript(GATHER);
    page.setDefaultTimeout(30_000);
    await page.goto(await signInAddress());
    await page.getByRole('navigation').getByRole('link', { name: 'Conversations' }).click();
    await page.getByRole('button', { name: 'New message' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Conversation' }).fill('restart');
    await dialog.getByLabel('What is to be done?').fill(`stream:${DELTAS}:100`);
    await dialog.getByRole('button', { name: 'Send', exact: true }).click();
    const answer = page.locator('.answer.streaming');
    const took = [];
    for (let kill = 0; kill < KILLS; kill += 1) {
      await answer.waitFor();
      const length = (await answer.innerText()).length;
      await until(async () => (await answer.innerText()).length > length, 'more of the answer', 20_000);
      await daemon.kill('SIGKILL');
      await page.getByText('The connection is lost').waitFor();
      daemon = await startDaemon();
      await page.getByText('The connection is lost').waitFor({ state: 'detached', timeout: 10_000 });
      took.push(Date.now() - daemon.readyAt);
    }
    console.log(`# reconnected after ${took.join(', ')} ms`);
    const done = page.locator('.answer:not(.streaming)').first();
    await done.waitFor();
    const words = (await done.innerText()).match(/\d+/g)?.map(Number);
    assert.deepEqual(words, Array.from({ length: DELTAS }, (_, n) => n + 1), await done.innerText());
    const ids = (await page.evaluate(() => window.gathered.join(''))).match(/^id: .+$/gm) ?? [];
    assert.ok(ids.length > 0);
    assert.equal(new Set(ids).size, ids.length, `doubled: ${ids.filter((id, at) => ids.indexOf(id) !== at)}`);
    for (const ms of took) assert.ok(ms <= RECONNECT_MS, `${ms} ms`);
    assert.deepEqual(page.wrong, []);
  } finally {
    await browser.close();
    await daemon.kill('SIGTERM');
  }
});
