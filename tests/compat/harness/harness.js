// Runs the tests of a program and prints their results in the format of Rust's test programs.

const assert = require("node:assert/strict");
const { createRequire } = require("node:module");

const BOLT = process.env.BOLT;
const USER = "admin";
const PASSWORD = process.env.PASSWORD;

// Resolves packages from the folder into which the suite installs them.
const library = createRequire(`${process.env.MODULES}/`);

/**
 * Marks a test of a feature that the server does not have: it must throw an error that contains `message`. The mark
 * fails when the feature begins to work, so that it is removed then.
 */
function expectedToFail(message, test) {
  const marked = () => test();
  Object.defineProperty(marked, "name", { value: test.name });
  marked.expected = message;
  return marked;
}

async function outcome(test) {
  try {
    await test();
  } catch (error) {
    const text = `${error.stack ?? error}\n${JSON.stringify(error, Object.getOwnPropertyNames(error))}`;
    return test.expected !== undefined && text.includes(test.expected) ? "" : text;
  }
  return test.expected === undefined ? "" : `works now: remove the mark expectedToFail("${test.expected}")`;
}

/** Runs the tests in order; the exit code is 1 if one failed. `cleanup` runs at the end. */
async function run(program, tests, cleanup) {
  const chosen = process.argv.slice(2);
  tests = tests.filter((test) => chosen.length === 0 || chosen.includes(test.name));
  console.log(`running ${tests.length} tests`);
  const failures = [];
  for (const test of tests) {
    const why = await outcome(test);
    const mark = test.expected === undefined ? "" : " (expected to fail)";
    console.log(`test ${program}::${test.name}${mark} ... ${why ? "FAILED" : "ok"}`);
    if (why) failures.push([test.name, why]);
  }
  if (cleanup) await cleanup();
  for (const [name, why] of failures) console.log(`---- ${program}::${name} ----\n${why}\n`);
  const state = failures.length > 0 ? "FAILED" : "ok";
  const passed = tests.length - failures.length;
  console.log(`test result: ${state}. ${passed} passed; ${failures.length} failed; 0 ignored`);
  process.exit(failures.length > 0 ? 1 : 0);
}

module.exports = { BOLT, USER, PASSWORD, assert, library, expectedToFail, run };
