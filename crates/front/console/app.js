// The least page: signs in with the code of its address, and says who it is.
const state = document.getElementById('state');
const code = /^#login=(.+)$/.exec(location.hash)?.[1];
history.replaceState(null, '', location.pathname);
const opened = await fetch('../v1/session', {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ code: code ?? '' }),
});
const said = await opened.json();
if (opened.ok) {
  const headers = { 'codex-bridge-session': said.half };
  const session = await (await fetch('../v1/session', { headers })).json();
  state.textContent = `Signed in as ${session.name}: ${session.scopes.join(', ')}`;
} else {
  state.textContent = said.detail;
}
