// Notifications of the browser: pushes are delivered to the worker over CDP, as a push service would.
//
//     CONSOLE_KIT=DIR node --test crates/front/console-tests/push.test.mjs

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, open, until } from './browser.mjs';
import { fakeDaemon } from './fake.mjs';
import { serve } from './serve.mjs';

const SHORT = 'command: ls\ncwd: /home/ada';

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** What a browser without a push service can't do. */
function fakePushService() {
  const kept = { endpoint: 'https://push.example/1', keys: { p256dh: 'BPub', auth: 'c2VjcmV0' } };
  PushManager.prototype.subscribe = async () => { globalThis.subscribed = { ...kept, toJSON: () => kept, unsubscribe: async () => { globalThis.subscribed = null; } }; return globalThis.subscribed; };
  PushManager.prototype.getSubscription = async () => globalThis.subscribed;
}

/** A page that is told, its worker, and a way to push. */
function on(name, run, { permissions = ['notifications'], turnOn = true } = {}) {
  test(name, { timeout: 60_000 }, async () => {
    const served = await serve({ fake: fakeDaemon({ questions: 3 }) });
    const { origin } = new URL(served.url);
    const page = await open(browser);
    const context = page.context();
    await context.grantPermissions(permissions, { origin });
    await page.addInitScript(fakePushService);
    const client = await context.newCDPSession(page);
    const registrations = [];
    client.on('ServiceWorker.workerRegistrationUpdated', (event) => registrations.push(...event.registrations));
    await client.send('ServiceWorker.enable');
    await page.goto(`${served.url}#login=good`);
    const given = { page, client, ...served };
    try {
      if (turnOn) {
        await page.getByRole('button', { name: 'Notify this browser' }).click();
        await page.getByRole('dialog').getByRole('button', { name: 'Turn on' }).click();
        await page.getByRole('button', { name: 'Notify this browser', pressed: true }).waitFor();
        const worker = context.serviceWorkers()[0] ?? await context.waitForEvent('serviceworker');
        await until(() => worker.evaluate(() => self.registration.active?.state === 'activated'), 'the worker');
        const { registrationId } = registrations.find((one) => one.scopeURL === served.url);
        given.worker = worker;
        given.push = (payload) => client.send('ServiceWorker.deliverPushMessage', { origin, registrationId, data: JSON.stringify(payload) });
        given.shown = (found) => until(async () => {
          const all = await worker.evaluate(async () => (await self.registration.getNotifications()).map(({ title, body, tag, actions, data }) => ({ title, body, tag, data, actions: actions.map((one) => one.action) })));
          return found(all) && all;
        }, 'the notification', 30_000);
        given.press = (tag, action = '') => worker.evaluate(async ([tag, action]) => {
          const [notification] = await self.registration.getNotifications({ tag });
          self.dispatchEvent(new NotificationEvent('notificationclick', { notification, action }));
        }, [tag, action]);
      }
      await run(given);
      assert.deepEqual(page.wrong, []);
    } finally {
      await context.close();
      served.close();
    }
  });
}

const QUESTION = { kind: 'question', id: 'r0000', title: 'Codex asks something', body: 'Question kzzz waits.', path: '#/requests/r0000' };

on('a browser is told and turned off', async ({ page, fake }) => {
  assert.deepEqual(fake.rows.push.map(({ about, detail }) => ({ about, detail })), [{ about: ['question', 'failure'], detail: 'hint' }]);
  await page.getByRole('button', { name: 'Notify this browser' }).click();
  await page.getByRole('button', { name: 'Turn off' }).click();
  await page.getByRole('button', { name: 'Notify this browser', pressed: false }).waitFor();
  assert.deepEqual(fake.rows.push, []);
});

on('a refused permission says what to do', async ({ page }) => {
  await page.getByRole('button', { name: 'Notify this browser' }).click();
  await page.getByText('Notifications of this page are blocked').waitFor();
}, { permissions: [], turnOn: false });

on('a whole question can be approved', async ({ fake, push, shown, press }) => {
  Object.assign(fake.rows.requests[0], { shown: SHORT });
  await push(QUESTION);
  const [one] = await shown((all) => all.length === 1);
  assert.deepEqual({ body: one.body, tag: one.tag, actions: one.actions }, { body: SHORT, tag: 'r0000', actions: ['decline', 'approve'] });
  const call = fake.state.calls.findLast((call) => call.name === 'requests/r0000');
  assert.equal(call.headers['codex-bridge-session'], 'half');
  await press('r0000', 'approve');
  await until(() => fake.rows.requests[0].state === 'accept', 'the decision');
  assert.equal(fake.rows.requests[0].decided_with, fake.rows.requests[0].digest);
});

on('what does not fit is reviewed', async ({ fake, push, shown, press }) => {
  Object.assign(fake.rows.requests[0], { shown: `${SHORT}\n${'x'.repeat(200)}` });
  await push(QUESTION);
  const [one] = await shown((all) => all.length === 1);
  assert.deepEqual(one.actions, ['decline', 'review']);
  assert.equal(one.body, fake.rows.requests[0].headline);
  await press('r0000', 'decline');
  await until(() => fake.rows.requests[0].state === 'decline', 'the decision');
});

on('somebody else’s work is not approved there', async ({ fake, push, shown }) => {
  Object.assign(fake.rows.requests[0], { shown: SHORT, requester: 'peer mallory' });
  await push(QUESTION);
  const [one] = await shown((all) => all.length === 1);
  assert.deepEqual(one.actions, ['decline', 'review']);
});

on('without approve there is no button', async ({ fake, push, shown }) => {
  Object.assign(fake.rows.requests[0], { shown: SHORT });
  fake.state.session.scopes = ['read'];
  await push(QUESTION);
  const [one] = await shown((all) => all.length === 1);
  assert.deepEqual(one.actions, ['decline', 'review']);
});

on('a hint is all without a session', async ({ fake, push, shown }) => {
  Object.assign(fake.rows.requests[0], { shown: SHORT });
  fake.state.signedIn = false;
  await push(QUESTION);
  const [one] = await shown((all) => all.length === 1);
  assert.deepEqual({ title: one.title, body: one.body, actions: one.actions }, { title: QUESTION.title, body: QUESTION.body, actions: ['review'] });
});

on('a refused decision is said', async ({ fake, push, shown, press }) => {
  await push(QUESTION);
  await shown((all) => all.length === 1);
  Object.assign(fake.rows.requests[0], { state: 'accept', by: 'ann' });
  await press('r0000', 'decline');
  const [one] = await shown((all) => all[0]?.title.startsWith('Not decided'));
  assert.match(one.body, /ann already decided/);
});

on('settled elsewhere closes it', async ({ fake, push, shown }) => {
  await push(QUESTION);
  await shown((all) => all.length === 1);
  Object.assign(fake.rows.requests[0], { state: 'accept', by: 'ann' });
  await push({ ...QUESTION, kind: 'settled', title: 'Settled' });
  await shown((all) => all.length === 0);
});

on('settled elsewhere is said without a page', async ({ page, fake, push, shown }) => {
  await page.goto('about:blank');
  Object.assign(fake.rows.requests[0], { state: 'accept', by: 'ann' });
  await push({ ...QUESTION, kind: 'settled', title: 'Settled' });
  await shown((all) => all[0]?.body === 'Decided by ann: accept');
  await shown((all) => all.length === 0);
});

on('a tap leads to the question', async ({ page, push, shown, press }) => {
  await push({ ...QUESTION, kind: 'failure', id: 'm-3-1', path: '#/messages/m-3-1', title: 'A message needs somebody' });
  await shown((all) => all.length === 1);
  await press('m-3-1');
  await page.getByRole('heading', { level: 1, name: 'Why' }).waitFor();
});
