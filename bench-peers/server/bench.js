// Single documents read and written from node.js over 25 connections, all submitted at once: the client/server setup of the
// multi-model benchmark. Prints one JSON object a line, as `isomer bench` does, with the system.
//
//   node bench.js --bolt bolt://127.0.0.1:7687 --http http://127.0.0.1:4766 --postgres postgres://… [--n 100000] [--documents 100000]
//
// The server must run without authentication and serve the database `bench`; PostgreSQL gets a table `documents`. Systems without an
// address are left out. `--load` loads the documents first.

import http from 'node:http'
import { parseArgs } from 'node:util'

const { values: options } = parseArgs({
  options: {
    bolt: { type: 'string' },
    http: { type: 'string' },
    postgres: { type: 'string' },
    n: { type: 'string', default: '100000' },
    documents: { type: 'string', default: '100000' },
    load: { type: 'boolean', default: false }
  }
})
const n = Number(options.n)
const documents = Number(options.documents)
const CONNECTIONS = 25
const document = number => ({ _key: `P${number}`, age: number % 90, name: `person number ${number}` })
const run = Date.now().toString(36)

function report (system, name, ms, count) {
  console.log(JSON.stringify({ bench: 'server', case: name, value: ms / 1000, unit: 's', n: count, system }))
}

async function timed (system, name, operation) {
  const began = performance.now()
  await Promise.all(Array.from({ length: n }, (_, number) => operation(number)))
  report(system, name, performance.now() - began, n)
}

const random = (state => () => (state = (state * 48271) % 2147483647) % documents)(20261121)

async function bolt (url) {
  const { default: neo4j } = await import('neo4j-driver')
  const driver = neo4j.driver(url, undefined, { maxConnectionPoolSize: CONNECTIONS, connectionAcquisitionTimeout: 3600_000, disableLosslessIntegers: true })
  const query = async (text, parameters) => {
    const session = driver.session({ database: 'bench' })
    try {
      return await session.run(text, parameters)
    } finally {
      await session.close()
    }
  }
  if (options.load) {
    for (let from = 0; from < documents; from += 10_000) {
      const rows = Array.from({ length: Math.min(10_000, documents - from) }, (_, at) => document(from + at))
      await query('UNWIND $rows AS row MERGE (p:Person {_key: row._key}) SET p += row', { rows })
    }
  }
  await timed('isomer-bolt', 'bolt_reads_100k_s', async () => {
    const result = await query('MATCH (p:Person {_key: $key}) RETURN p', { key: `P${random()}` })
    if (result.records.length !== 1) throw new Error('a document is missing')
  })
  await timed('isomer-bolt', 'bolt_writes_100k_s', number =>
    query('CREATE (p:Written {_key: $key, age: $age, name: $name})', { ...document(number), key: `${run}-${number}` }))
  await driver.close()
}

async function overHttp (url) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  const ask = (method, path, body) => new Promise((resolve, reject) => {
    const text = body && JSON.stringify(body)
    const headers = text ? { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) } : {}
    const request = http.request(url + path, { method, agent, headers }, response => {
      const parts = []
      response.on('data', part => parts.push(part))
      response.on('end', () => response.statusCode < 300
        ? resolve(Buffer.concat(parts).toString())
        : reject(new Error(`${method} ${path}: ${response.statusCode} ${Buffer.concat(parts)}`)))
    })
    request.on('error', reject)
    request.end(text)
  })
  const people = '/v1/databases/bench/collections/Person'
  if (options.load && !options.bolt) {
    for (let from = 0; from < documents; from += 10_000) {
      await ask('POST', people, Array.from({ length: Math.min(10_000, documents - from) }, (_, at) => document(from + at)))
    }
  }
  await timed('isomer-http', 'http_reads_100k_s', async () => JSON.parse(await ask('GET', `${people}/P${random()}`)))
  await timed('isomer-http', 'http_writes_100k_s', number =>
    ask('POST', '/v1/databases/bench/collections/WrittenHttp', { ...document(number), _key: `${run}-${number}` }))
  agent.destroy()
}

async function postgres (url) {
  const { default: pg } = await import('pg')
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS })
  await pool.query('CREATE TABLE IF NOT EXISTS documents (key text PRIMARY KEY, body jsonb NOT NULL)')
  await pool.query('CREATE TABLE IF NOT EXISTS written (key text PRIMARY KEY, body jsonb NOT NULL)')
  if (options.load) {
    await pool.query(`INSERT INTO documents SELECT 'P' || n, jsonb_build_object('_key', 'P' || n, 'age', n % 90, 'name', 'person number ' || n)
      FROM generate_series(0, $1::int - 1) AS n ON CONFLICT DO NOTHING`, [documents])
  }
  await timed('postgresql', 'reads_100k_s', async () => {
    const result = await pool.query({ name: 'read', text: 'SELECT body FROM documents WHERE key = $1', values: [`P${random()}`] })
    if (result.rows.length !== 1) throw new Error('a document is missing')
  })
  await timed('postgresql', 'writes_100k_s', number =>
    pool.query({ name: 'write', text: 'INSERT INTO written VALUES ($1, $2)', values: [`${run}-${number}`, document(number)] }))
  await pool.end()
}

if (options.bolt) await bolt(options.bolt)
if (options.http) await overHttp(options.http)
if (options.postgres) await postgres(options.postgres)
