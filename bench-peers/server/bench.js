// The client/server setup of the multi-model benchmark: one program in node.js, 25 connections, all requests submitted at once; single
// documents read and written, an aggregation, the neighbours of 500 people in two steps, 19 shortest paths. Prints one JSON object a
// line, as `isomer bench` does, with the system. `run.py` starts the systems, loads the network and calls this.
//
//   node bench.js --data FOLDER --system isomer-http --address http://127.0.0.1:4766 [--n 100000]

import fs from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

const { values: options } = parseArgs({
  options: {
    data: { type: 'string' },
    system: { type: 'string' },
    address: { type: 'string' },
    n: { type: 'string', default: '100000' }
  }
})
const CONNECTIONS = 25
const lines = file => fs.readFileSync(join(options.data, file), 'utf8').split('\n').filter(line => line && !line.startsWith('#'))
const keys = lines('keys.txt')
const starts = lines('starts.txt').map(line => line.split('\t')[0])
const pairs = lines('pairs.tsv').map(line => line.split('\t')).slice(0, 19)
const n = Number(options.n)
const run = Date.now().toString(36)
const document = number => ({ AGE: number % 90, name: `person number ${number}`, public: true })

const LANGUAGE = {
  read: 'MATCH (p:Person {_key: $key}) RETURN p',
  write: 'CREATE (p:Written {_key: $key, AGE: $AGE, name: $name, public: $public})',
  ages: 'MATCH (p:Person) RETURN p.AGE AS age, count(*) AS people',
  neighbours: 'MATCH (p:Person {_key: $key})-[:FRIEND*1..2]->(n) WHERE n <> p RETURN DISTINCT n._key AS key',
  path: 'MATCH (a:Person {_key: $from}), (b:Person {_key: $to}), p = shortestPath((a)-[:FRIEND*]->(b)) RETURN length(p) AS steps'
}

function must (holds, what) {
  if (!holds) throw new Error(what)
}

/** Over HTTP: documents by their own routes, questions through the language. */
function overHttp () {
  const url = new URL(options.address)
  const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  const ask = (method, path, body) => new Promise((resolve, reject) => {
    const text = body && JSON.stringify(body)
    const headers = text ? { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) } : {}
    const request = http.request({ host: url.hostname, port: url.port, path, method, agent, headers }, response => {
      let told = ''
      response.setEncoding('utf8')
      response.on('data', part => { told += part })
      response.on('end', () => response.statusCode < 300
        ? resolve(told && JSON.parse(told))
        : reject(new Error(`${method} ${path}: ${response.statusCode} ${told}`)))
    })
    request.on('error', reject)
    request.end(text)
  })
  const base = '/v1/databases/bench'
  const query = async (text, parameters) => (await ask('POST', `${base}/query`, { query: text, parameters })).rows
  return {
    prefix: 'http_',
    read: async key => must((await ask('GET', `${base}/collections/Person/${key}`))._key === key, `${key} is missing`),
    write: (key, body) => ask('POST', `${base}/collections/WrittenHttp`, { ...body, _key: key }),
    ages: async () => (await query(LANGUAGE.ages, {})).length,
    neighbours: async key => (await query(LANGUAGE.neighbours, { key })).length,
    path: async (from, to) => (await query(LANGUAGE.path, { from, to }))[0]?.[0],
    close: async () => agent.destroy()
  }
}

/** Over Bolt, with the official driver. */
async function overBolt () {
  const { default: neo4j } = await import('neo4j-driver')
  const driver = neo4j.driver(options.address, undefined, { maxConnectionPoolSize: CONNECTIONS, connectionAcquisitionTimeout: 3600_000, disableLosslessIntegers: true })
  const query = async (text, parameters) => {
    const session = driver.session({ database: 'bench' })
    try {
      return (await session.run(text, parameters)).records
    } finally {
      await session.close()
    }
  }
  return {
    prefix: 'bolt_',
    read: async key => must((await query(LANGUAGE.read, { key })).length === 1, `${key} is missing`),
    write: (key, body) => query(LANGUAGE.write, { ...body, key }),
    ages: async () => (await query(LANGUAGE.ages, {})).length,
    neighbours: async key => (await query(LANGUAGE.neighbours, { key })).length,
    path: async (from, to) => (await query(LANGUAGE.path, { from, to }))[0]?.get('steps'),
    close: () => driver.close()
  }
}

/** PostgreSQL with `pg`: documents as jsonb, prepared statements, relationships indexed both ways, paths by a search from both ends. */
async function postgres () {
  const { default: pg } = await import('pg')
  const pool = new pg.Pool({ host: options.address, user: 'chat', database: 'chat', max: CONNECTIONS })
  const query = async (name, text, values) => (await pool.query({ name, text, values })).rows
  const STEPS = `SELECT key FROM person JOIN (SELECT dst AS n FROM friend WHERE src = $1 AND dst <> $1 UNION
    SELECT b.dst FROM friend a JOIN friend b ON b.src = a.dst WHERE a.src = $1 AND b.dst <> $1) x ON person.id = n`
  const expand = [
    people => query('forwards', 'SELECT DISTINCT dst AS n FROM friend WHERE src = ANY($1)', [people]),
    people => query('backwards', 'SELECT DISTINCT src AS n FROM friend WHERE dst = ANY($1)', [people])
  ]
  const number = key => Number(key.slice(1))
  return {
    prefix: '',
    read: async key => must((await query('read', 'SELECT doc FROM person WHERE key = $1', [key])).length === 1, `${key} is missing`),
    write: (key, body) => query('write', 'INSERT INTO written VALUES ($1, $2)', [key, body]),
    ages: async () => (await query('ages', 'SELECT age, count(*) FROM person GROUP BY age', [])).length,
    neighbours: async key => (await query('steps', STEPS, [number(key)])).length,
    path: async (from, to) => {
      const seen = [new Set([number(from)]), new Set([number(to)])]
      const edge = [[number(from)], [number(to)]]
      for (let steps = 1; edge[0].length && edge[1].length; steps++) {
        const side = edge[0].length <= edge[1].length ? 0 : 1
        const found = (await expand[side](edge[side])).map(row => row.n).filter(one => !seen[side].has(one))
        if (found.some(one => seen[1 - side].has(one))) return steps
        found.forEach(one => seen[side].add(one))
        edge[side] = found
      }
    },
    close: () => pool.end()
  }
}

const system = await { 'isomer-http': overHttp, 'isomer-bolt': overBolt, postgresql: postgres }[options.system]()

async function timed (name, all, operation) {
  const began = performance.now()
  const answers = await Promise.all(all.map(operation))
  const value = (performance.now() - began) / 1000
  console.log(JSON.stringify({ bench: 'server', case: name, value: Number(value.toFixed(4)), unit: 's', n: all.length, system: options.system }))
  return answers
}

const chosen = Array.from({ length: n }, (_, at) => keys[at % keys.length])
await Promise.all(chosen.slice(0, 1_000).map(system.read))
const groups = await system.ages()
await timed(`${system.prefix}reads_100k_s`, chosen, system.read)
await timed(`${system.prefix}writes_100k_s`, Array.from({ length: n }, (_, at) => at), at => system.write(`${run}-${at}`, document(at)))
must((await timed('aggregate_s', [0], system.ages))[0] === groups, 'the groups differ')
const neighbours = await timed('neighbours_500_s', starts, system.neighbours)
console.error(`${options.system}: ${neighbours.reduce((sum, count) => sum + count, 0)} neighbours`)
const lengths = await timed('paths_19_s', pairs, ([from, to]) => system.path(from, to))
pairs.forEach(([from, to, steps], at) => must(lengths[at] === Number(steps), `${from} to ${to}: ${lengths[at]} steps, not ${steps}`))
await system.close()
