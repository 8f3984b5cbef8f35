// Serves the console as the daemon does, to try it without one: the files below /console/ with their headers, and `/v1`
// either from a real daemon (`--daemon http://127.0.0.1:4141`, with `--token-file FILE` or a code of its own) or from `fake.mjs`.
//
//     node serve.mjs [--port 4180] [--prefix /some/where] [--daemon URL [--token-file FILE]]

import { createServer, request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { readFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fakeDaemon } from './fake.mjs';

const FOLDER = fileURLToPath(new URL('../console', import.meta.url));
const MEDIA = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml', '.webmanifest': 'application/manifest+json',
};
const HEADERS = {
  'content-security-policy': "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types sw",
  'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer', 'cache-control': 'no-cache',
};

async function file(path, response) {
  const name = normalize(path === '' ? 'index.html' : path);
  try {
    if (name.startsWith('..')) throw new Error('outside');
    const content = await readFile(join(FOLDER, name));
    response.writeHead(200, { ...HEADERS, 'content-type': MEDIA[extname(name)] ?? 'text/plain', 'content-encoding': 'gzip' }).end(gzipSync(content, { level: 9 }));
  } catch {
    response.writeHead(404, HEADERS).end();
  }
}

function forward(daemon, token) {
  return (incoming, response, path) => {
    const { origin: _, host: __, ...headers } = incoming.headers;
    const passed = request(new URL(path, daemon), { method: incoming.method, headers: token ? { ...headers, authorization: `Bearer ${token}` } : headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
      // A daemon that dies in the middle of a stream must look like that.
      answer.on('close', () => { if (!answer.complete) response.destroy(); });
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    incoming.pipe(passed);
  };
}

/** @returns {Promise<{ url: string, close: () => void, fake: object }>} */
export async function serve({ port = 0, prefix = '', daemon, token, fake = fakeDaemon() } = {}) {
  const api = daemon ? forward(daemon, token) : fake.handle;
  const server = createServer((incoming, response) => {
    const path = (incoming.url ?? '/').startsWith(prefix) ? incoming.url.slice(prefix.length) : '';
    if (path.startsWith('/console/')) file(decodeURIComponent(new URL(path, 'http://x').pathname.slice('/console/'.length)), response);
    else if (path.startsWith('/v1/')) api(incoming, response, path);
    else response.writeHead(404).end();
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  const close = () => { server.closeAllConnections(); server.close(); };
  return { url: `http://127.0.0.1:${server.address().port}${prefix}/console/`, close, fake };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const given = (name) => process.argv[process.argv.indexOf(`--${name}`) + 1];
  const has = (name) => process.argv.includes(`--${name}`);
  const { url } = await serve({
    port: has('port') ? Number(given('port')) : 4180, prefix: has('prefix') ? given('prefix') : '',
    daemon: has('daemon') ? given('daemon') : undefined, token: has('token-file') ? readFileSync(given('token-file'), 'utf8').trim() : undefined,
  });
  console.log(url);
}
