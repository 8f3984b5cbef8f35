// From the browser alone, with a real daemon and a real Codex over the scripted model: start a task, watch it, answer its
// question, steer, stop, read why, send a dead letter again, make and revoke a token.
//
//     CONSOLE_KIT=DIR CONSOLE_URL=http://127.0.0.1:4141/console/#login=CODE CONSOLE_DIRECTORY=/home/you/project node --test journey.test.mjs
//
// With CONSOLE_DAEMON and CONSOLE_TOKEN_FILE instead of CONSOLE_URL the page is served by `serve.mjs`, which adds the token.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { launch, open, until } from './browser.mjs';
import { serve } from './serve.mjs';

const PATIENCE_MS = 30_000;
let browser;
let page;
let served;

before(async () => {
  if (!process.env.CONSOLE_URL) served = await serve({ daemon: process.env.CONSOLE_DAEMON, token: readFileSync(process.env.CONSOLE_TOKEN_FILE, 'utf8').trim() });
  browser = await launch();
  page = await open(browser);
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(process.env.CONSOLE_URL ?? served.url);
  await page.getByRole('navigation').waitFor();
});
after(async () => {
  await browser.close();
  served?.close();
});

const button = (name, within = page) => within.getByRole('button', { name, exact: true });
const dialog = () => page.getByRole('dialog');
const to = async (name) => {
  await page.getByRole('navigation').getByRole('link', { name }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
};

async function startTask(prompt) {
  await to('Tasks');
  await button('Start a task').first().click();
  await dialog().getByRole('textbox', { name: 'Directory' }).fill(process.env.CONSOLE_DIRECTORY);
  await dialog().getByRole('combobox', { name: /^Sandbox/ }).selectOption('workspace-write');
  await dialog().getByLabel('What is to be done?').fill(prompt);
  await button('Start', dialog()).click();
  await page.waitForSelector('.message');
}

test('a task asks, streams and is steered', { timeout: 120_000 }, async () => {
  await startTask('escal:touch asked.txt ;; stream:120:100');
  const accept = button('Accept', page.locator('.question'));
  await accept.waitFor();
  await until(() => accept.isEnabled(), 'Accept becoming possible');
  await accept.click();
  if (await dialog().isVisible()) await button('Accept', dialog()).click();
  await page.locator('.answer.streaming').waitFor();
  const before = (await page.locator('.answer.streaming').innerText()).length;
  await until(async () => (await page.locator('.answer.streaming').innerText()).length > before, 'more text');
  await page.getByLabel('Tell the task more').fill('echo:It was steered.');
  await button('Steer').click();
  await page.getByText(/The running turn has it|The next turn begins with it/).waitFor();
  await page.locator('.answer:not(.streaming)').first().waitFor();
});

test('a task is stopped', { timeout: 60_000 }, async () => {
  await startTask('hang:');
  await page.locator('.message .phase.working').waitFor();
  await button('Stop', page.locator('.head')).click();
  await page.locator('.message .phase.stopped').waitFor();
});

test('why is explained', { timeout: 60_000 }, async () => {
  await page.locator('.message').getByRole('link', { name: 'why' }).click();
  await page.getByRole('heading', { level: 1, name: 'Why' }).waitFor();
  await page.locator('.timeline .attempt').first().waitFor();
  await page.locator('.states [aria-current=step]').first().waitFor();
});

test('a dead letter is sent again', { timeout: 60_000 }, async () => {
  await to('Conversations');
  await button('New message').click();
  await dialog().getByRole('textbox', { name: 'Conversation' }).fill('journey');
  const text = `fail:400:1 ${Date.now()}`;
  await dialog().getByLabel('What is to be done?').fill(text);
  await button('Send', dialog()).click();
  await page.locator('.message .phase.failed').waitFor();
  await to('Failed');
  const card = page.locator('.dead').filter({ hasText: text });
  await button('Retry', card).click();
  await button('Send again', dialog()).click();
  await card.waitFor({ state: 'detached' });
});

test('a token is made and revoked', { timeout: 60_000 }, async () => {
  await to('Access');
  await button('Make a token').click();
  await dialog().getByLabel('Name').fill('journey');
  await button('Make it', dialog()).click();
  assert.ok((await dialog().getByLabel('The token').inputValue()).length > 20);
  await button('I have it', dialog()).click();
  await page.getByRole('row', { name: /journey/ }).getByRole('button').click();
  await button('Revoke', dialog()).click();
  await page.getByText('journey is revoked').waitFor();
  assert.deepEqual(page.wrong, []);
});
