// Debian's chromium, driven by playwright-core. CONSOLE_KIT is the directory in which npm installed playwright-core and
// axe-core; CONSOLE_CHROMIUM is the browser, `/usr/bin/chromium` when absent.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const kit = createRequire(`${process.env.CONSOLE_KIT ?? process.cwd()}/`);
const { chromium } = kit('playwright-core');
const axe = readFileSync(kit.resolve('axe-core/axe.min.js'), 'utf8');

const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
export const SIZES = { desktop: { width: 1280, height: 860 }, phone: { width: 390, height: 844 } };
export const THEMES = ['light', 'dark'];

export const launch = () => chromium.launch({ executablePath: process.env.CONSOLE_CHROMIUM ?? '/usr/bin/chromium', args: ARGS });

/** A page that remembers everything that should not happen in it: errors, CSP reports, dialogs. */
export async function open(browser, { size = 'desktop', theme = 'light', context: given, ...more } = {}) {
  const context = given ?? await browser.newContext({ viewport: SIZES[size], colorScheme: theme, isMobile: size === 'phone', hasTouch: size === 'phone', ...more });
  const page = await context.newPage();
  page.wrong = [];
  page.on('pageerror', (error) => page.wrong.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => { page.wrong.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('console', (message) => {
    const text = message.text();
    if (message.type() === 'error' && !text.startsWith('Failed to load resource')) page.wrong.push(`console: ${text}`);
  });
  await page.addInitScript(() => document.addEventListener('securitypolicyviolation', (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`)));
  return page;
}

/** What axe finds. Over CDP, past the page's CSP, which would refuse the script. */
export async function violations(page) {
  const client = await page.context().newCDPSession(page);
  const expression = `${axe}; axe.run(document, { resultTypes: ['violations'] }).then((found) => JSON.stringify(found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.target.join(' ') + ' ' + node.failureSummary.replace(/\\s+/g, ' ').slice(0, 200)).slice(0, 3).join(' | '))))`;
  const { result } = await client.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
  await client.detach();
  return JSON.parse(result.value);
}

/** Slows the page down to a phone. */
export async function slowly(page, rate = 4) {
  const client = await page.context().newCDPSession(page);
  await client.send('Emulation.setCPUThrottlingRate', { rate });
}

/** Waits until the condition in the test holds. */
export async function until(condition, what, ms = 5000) {
  for (const end = Date.now() + ms; Date.now() < end;) {
    const found = await condition();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`${what} did not happen in ${ms} ms`);
}
