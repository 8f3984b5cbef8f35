// Screenshots of every screen, light and dark, desktop and phone, as WebP:
//
//     CONSOLE_KIT=DIR node screenshots.mjs DIRECTORY [SCREEN,SCREEN]
//
// CONSOLE_DEMO names a `codex-bridge` whose `demo --keep` is looked at; CONSOLE_URL the address of a daemon with such data,
// with a code. Without both the rows of `fake.mjs` are.

import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SIZES, THEMES, launch, open } from './browser.mjs';
import { SCREENS } from './screens.mjs';
import { serve } from './serve.mjs';

const QUALITY = 62;
const START_MS = 300_000;
const [directory = '.', only] = process.argv.slice(2);

/** `demo --keep`, as soon as it says its address. */
function demo(program) {
  const child = spawn(program, ['demo', '--keep'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const close = async () => { child.kill('SIGINT'); await ended; };
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
      const url = /http:\S+#login=\S+/.exec(text)?.[0];
      if (url) resolve({ url, close });
    });
    ended.then(() => reject(new Error(`the demo ended: ${text.slice(-2000)}`)));
    setTimeout(() => reject(new Error(`the demo is not ready after ${START_MS} ms: ${text.slice(-2000)}`)), START_MS).unref();
  });
}

/** The same screens, of rows that are really there. */
const ofDaemon = (page) => page.evaluate(`(async () => {
  const { everything, get } = await import('./app.js');
  const [requests, conversations, tasks] = await Promise.all([everything('requests', 'requests'), everything('conversations', 'conversations'), everything('tasks', 'tasks')]);
  const stories = await Promise.all(conversations.map((one) => get('conversations/' + one.conversation_id)));
  const messages = stories.flatMap((story) => story.messages);
  const of = (phase) => conversations.find((one) => one.phase === phase && one.channel === 'local') ?? conversations[0];
  return {
    question: 'requests/' + (requests.find((one) => one.kind === 'file_change') ?? requests[0]).request_id,
    conversation: 'conversations/' + of('working').conversation_id,
    asking: 'conversations/' + (conversations.find((one) => one.open_requests > 0) ?? conversations[0]).conversation_id,
    task: 'tasks/' + tasks.toSorted((a, b) => b.message_ids.length - a.message_ids.length)[0].task_id,
    why: 'messages/' + messages.toSorted((a, b) => b.attempt - a.attempt)[0].message_id,
  };
})()`);

/** What a screen needs to have something to show. */
const PREPARE = {
  rules: async (page) => {
    await page.getByRole('textbox', { name: 'Command' }).fill('git push origin main');
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.waitForSelector('.answer-why');
  },
  search: async (page) => {
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog').getByRole('option').first().waitFor();
  },
};

const READY = { conversation: '.message', audit: '.verified .badge' };

const source = process.env.CONSOLE_DEMO ? await demo(process.env.CONSOLE_DEMO)
  : process.env.CONSOLE_URL ? { url: process.env.CONSOLE_URL, close: () => undefined } : await serve();
const base = source.url.replace(/#.*/, '');
const browser = await launch();
try {
  const first = await open(browser);
  await first.goto(source.url);
  await first.getByRole('navigation').waitFor();
  const storageState = await first.context().storageState({ indexedDB: true });
  const hashes = source.fake ? {} : await ofDaemon(first);
  await first.context().close();
  mkdirSync(directory, { recursive: true });
  const screens = { ...SCREENS, search: ['conversations', '.row'] };
  for (const size of Object.keys(SIZES)) {
    for (const theme of THEMES) {
      const page = await open(browser, { size, theme, storageState });
      const client = await page.context().newCDPSession(page);
      for (const [name, [hash, ready]] of Object.entries(screens)) {
        if (only && !only.split(',').includes(name)) continue;
        await page.goto(`${base}#/${hashes[name] ?? hash}`);
        await page.waitForSelector(source.fake ? ready : READY[name] ?? ready);
        await PREPARE[name]?.(page);
        await page.evaluate(() => { document.activeElement?.tagName === 'H1' && document.activeElement.blur(); scrollTo(0, 0); });
        await page.waitForTimeout(400);
        const { data } = await client.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
        writeFileSync(join(directory, `${name}-${size}-${theme}.webp`), Buffer.from(data, 'base64'));
      }
      if (page.wrong.length > 0) throw new Error(page.wrong.join('\n'));
      await page.context().close();
    }
  }
} finally {
  await browser.close();
  await source.close();
}
