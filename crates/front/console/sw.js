/** What is pushed becomes a notification, and its buttons decide. Without a session or the daemon it only leads to the page. */

const worker = /** @type {ServiceWorkerGlobalScope} */ (/** @type {unknown} */ (self));
const { clients, registration } = worker;

// What is surely seen whole: Windows shows 120 to 140 characters in four lines, macOS 80 to 90, Android more.
const BODY_MAX = navigator.userAgent.includes('Mac') ? 80 : 120;
const LINES_MAX = 4;
const PATIENCE_MS = 8000;
const SETTLED_MS = 5000;

/** As `app.js` keeps it. */
const half = () => new Promise((resolve, reject) => {
  const opening = indexedDB.open('codex-bridge', 1);
  opening.onupgradeneeded = () => opening.transaction?.abort();
  opening.onerror = reject;
  opening.onsuccess = () => {
    const request = opening.result.transaction('session').objectStore('session').get('half');
    request.onsuccess = () => resolve(request.result ?? '');
    request.onerror = reject;
  };
});

async function call(path, body) {
  const response = await fetch(new URL(`../v1/${path}`, registration.scope), {
    method: body ? 'POST' : 'GET',
    headers: { accept: 'application/json', 'content-type': 'application/json', 'codex-bridge-session': await half() },
    body: body && JSON.stringify(body),
    cache: 'no-store',
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer;
}

const show = (title, body, about, more = {}) => registration.showNotification(title, { body, tag: about.id, icon: 'icon.svg', data: about, ...more });

const action = (name) => ({ action: name.toLowerCase(), title: name });

async function question({ id, title, body, path }) {
  const about = { id, path };
  const found = await Promise.all([call(`requests/${id}`), call('session')]).catch(() => null);
  if (!found) return show(title, body, about, { actions: [action('Review')] });
  const [request, session] = found;
  if (request.state !== 'open') return settled({ id, title, body, path });
  const whole = request.shown ?? '';
  const fits = whole !== '' && whole.length <= BODY_MAX && whole.split('\n').length <= LINES_MAX;
  // The page asks twice about somebody else's work, and fills in forms.
  const mayApprove = fits && request.digest && request.wants === 'approval' && request.requester === 'you' && session.scopes.includes('approve');
  const names = ['Decline', ...(mayApprove ? ['Approve'] : []), 'Review'];
  // Where two buttons are all there are, a tap on the text reviews.
  const actions = names.slice(0, Math.max(2, /** @type {any} */ (Notification).maxActions)).map(action);
  return show(fits ? 'Codex asks' : title, fits ? whole : request.headline, { ...about, digest: request.digest }, { actions, requireInteraction: true });
}

const settle = async (tag) => (await registration.getNotifications({ tag })).forEach((shown) => shown.close());

async function settled({ id, title, body, path }) {
  await settle(id);
  // Browsers complain of a push that leaves nothing in sight.
  const left = [...await registration.getNotifications(), ...(await clients.matchAll({ type: 'window' })).filter((page) => page.visibilityState === 'visible')];
  if (left.length > 0) return;
  const request = await call(`requests/${id}`).catch(() => null);
  await show(title, request?.by ? `Decided by ${request.by}: ${request.state}` : body, { id, path }, { silent: true });
  setTimeout(() => settle(id), SETTLED_MS);
}

worker.addEventListener('push', (event) => {
  const told = event.data?.json() ?? {};
  const asks = told.kind === 'question' && told.path === `#/requests/${told.id}`;
  event.waitUntil(asks ? question(told) : told.kind === 'settled' ? settled(told) : show(told.title, told.body, told));
});

async function review(path) {
  const address = new URL(path.startsWith('#/') ? path : '#/requests', registration.scope).href;
  const [page] = await clients.matchAll({ type: 'window', includeUncontrolled: true });
  if (!page) return clients.openWindow(address);
  page.postMessage({ path });
  return page.focus();
}

worker.addEventListener('notificationclick', (event) => {
  const { notification: { data, title }, action: chosen } = event;
  event.notification.close();
  const decision = { approve: 'accept', decline: 'decline' }[chosen];
  event.waitUntil(decision ? call(`requests/${data.id}/decision`, { decision, digest: data.digest })
    .catch((error) => show(`Not decided: ${title}`, String(error.message), data, { actions: [action('Review')] })) : review(data.path));
});

worker.addEventListener('install', () => worker.skipWaiting());
