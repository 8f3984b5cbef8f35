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

/** Gathers what the page's streams bring, each by its path. */
const GATHER = () => {
  window.gathered = {};
  const fetched = window.fetch;
  window.fetch = async (...args) => {
    const response = await fetched(...args);
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
    const [kept, seen] = response.body.tee();
    const { pathname } = new URL(response.url);
    const gather = async () => {
      for await (const chunk of seen.pipeThrough(new TextDecoderStream())) window.gathered[pathname] = (window.gathered[pathname] ?? '') + chunk;
    };
    gather().catch(() => undefined);
    return new Response(kept, { status: response.status, headers: response.headers });
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
    const words = (await done.innerText()).trim().split(/\s+/);
    assert.deepEqual(words, Array.from({ length: DELTAS }, (_, n) => `w${n}`));
    const gathered = Object.entries(await page.evaluate(() => window.gathered));
    assert.ok(gathered.length > 1, 'the stream of everything, and of the message');
    for (const [path, text] of gathered) {
      // Text has no id, and is checked above. Ids of the stream of everything are times.
      const events = text.split('\n\n').filter((block) => /^id: /m.test(block) && !block.startsWith('event: ready'));
      const doubled = events.filter((event, at) => events.indexOf(event) !== at);
      assert.deepEqual(doubled, [], path);
    }
    for (const ms of took) assert.ok(ms <= RECONNECT_MS, `${ms} ms`);
    assert.deepEqual(page.wrong, []);
  } finally {
    await browser.close();
    await daemon.kill('SIGTERM');
  }
});
