// The daemon and the commands of a rig: CONSOLE_COMMAND is the JSON of { argv, env }, the built binary with its places.

import { spawn } from 'node:child_process';

const given = JSON.parse(process.env.CONSOLE_COMMAND ?? '{"argv":[],"env":{}}');

function start(args) {
  const [program, ...first] = given.argv;
  return spawn(program, [...first, ...args], { env: { ...process.env, ...given.env }, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Runs a command to its end. */
export async function run(...args) {
  const child = start(args);
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk) => { stdout += chunk; });
  child.stderr.on('data', (chunk) => { stderr += chunk; });
  const code = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  return { code, stdout, stderr };
}

/** Starts a daemon; the promise is kept when it serves. */
export async function startDaemon() {
  const child = start(['run']);
  let log = '';
  await new Promise((resolve, reject) => {
    child.stdout.resume();
    child.stderr.on('data', (chunk) => {
      log += chunk;
      if (log.includes(' ready ')) resolve();
    });
    child.on('error', reject).on('close', (code) => reject(new Error(`the daemon ended with ${code}:\n${log}`)));
  });
  const ended = new Promise((resolve) => child.on('close', resolve));
  return { readyAt: Date.now(), kill: (signal) => { child.kill(signal); return ended; } };
}

/** The address that signs one browser in. */
export async function signInAddress(...args) {
  const made = await run('console', '--json', ...args);
  if (made.code !== 0) throw new Error(made.stderr);
  const { url, code } = JSON.parse(made.stdout);
  return `${url}#login=${code}`;
}
