// The harness of the client programs: named scenarios, run one after the
// other, one line each, and an exit code.
import assert from 'node:assert/strict';

const baseURL = process.env.ANTIPHON_BASE_URL;
if (!baseURL) {
  console.error('ANTIPHON_BASE_URL is not set (for example http://127.0.0.1:4100/v1)');
  process.exit(2);
}

/** Where the server is and how to address it; the same for every client. */
export const target = {
  baseURL,
  model: process.env.ANTIPHON_MODEL ?? 'tiny',
  apiKey: process.env.ANTIPHON_API_KEY ?? 'none',
  // What the client says in `store`. undefined leaves the client's own default.
  store: { true: true, false: false }[process.env.ANTIPHON_STORE],
};

/** Whether the server is asked to remember, which some scenarios are about. */
export const remembers = target.store !== false;

// A scenario that hangs is a failure, not a hung test run.
const limitMs = 30_000;

const scenarios = [];

// What the server is declared to have no way for: scenarios that begin like this.
const lacks = (process.env.ANTIPHON_LACKS ?? '').split(';').filter(Boolean);

/** Adds a scenario. It passes if fn resolves. */
export function scenario(name, fn) {
  if (lacks.some((word) => name.startsWith(word))) console.log(`lacks ${name}`);
  else scenarios.push({ name, fn });
}

/**
 * Runs the scenarios in order and ends the process: 0 if all passed, 1 if not.
 * Arguments of the program choose the scenarios whose names contain one of them.
 */
export async function run() {
  const wanted = process.argv.slice(2);
  const chosen = scenarios.filter(({ name }) => !wanted.length || wanted.some((word) => name.includes(word)));
  let failed = 0;
  for (const { name, fn } of chosen) {
    try {
      await within(limitMs, fn);
      console.log(`ok    ${name}`);
    } catch (error) {
      failed++;
      console.log(`FAIL  ${name}\n${indent(describe(error))}`);
    }
  }
  console.log(`${chosen.length - failed} passed, ${failed} failed`);
  // A filter or an edit that leaves nothing to run must not look like success.
  process.exit(failed || !chosen.length ? 1 : 0);
}

/**
 * Resolves with the error that promise rejects with. A promise that resolves is
 * a failure that went unnoticed, and fails the scenario with the value shown.
 */
export async function rejection(promise) {
  let value;
  try {
    value = await promise;
  } catch (error) {
    return error;
  }
  return assert.fail(`expected a failure, got ${JSON.stringify(value)}`);
}

async function within(ms, fn) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no result after ${ms} ms`)), ms);
  });
  try {
    await Promise.race([fn(), late]);
  } finally {
    clearTimeout(timer);
  }
}

function describe(error) {
  const cause = error?.cause ? `\ncaused by ${describe(error.cause)}` : '';
  return (error?.stack ?? String(error)) + cause;
}

function indent(text) {
  return text.replace(/^/gm, '      ');
}

// A client may leave a rejected promise behind that nobody can await. Such a
// failure belongs to no scenario, so it must not end the process half way.
process.on('unhandledRejection', (error) => {
  console.log(`note  unhandled rejection: ${String(error).split('\n')[0]}`);
});
