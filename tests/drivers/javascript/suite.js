// The JavaScript driver against a server: see ../README.md.

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { setTimeout as pause } from 'node:timers/promises'

// Installed in the target folder, not here.
const neo4j = createRequire(process.env.MODULES + '/')('neo4j-driver')

const url = `bolt://${process.env.BOLT}`
const password = process.env.PASSWORD
const auth = neo4j.auth.basic('admin', password)
const driver = neo4j.driver(url, auth)
const people = { database: 'people' }
const query = async (text, parameters = {}, options = people) => (await driver.executeQuery(text, parameters, options)).records
const one = async (text, parameters) => (await query(text, parameters))[0].get(0)

async function refused (code, run) {
  const error = await run().then(() => assert.fail(`${code} was expected`), error => error)
  assert.equal(error.code, code, error.message)
  return error
}

const tests = {
  async autoCommit () {
    const session = driver.session(people)
    const result = await session.run('CREATE (p:Js {name: $name}) RETURN p', { name: 'Ada' })
    assert.deepEqual(result.records[0].get('p').labels, ['Js'])
    assert.equal(result.summary.counters.updates().nodesCreated, 1)
    assert.equal(result.summary.queryType, 'rw')
    assert.equal(result.summary.database.name, 'people')
    await session.close()
    assert.equal((await one('MATCH (p:Js) RETURN count(p)')).toNumber(), 1)
  },

  async explicitTransactions () {
    const session = driver.session(people)
    const first = await session.beginTransaction()
    await first.run('CREATE (:JsTx)')
    const [a, b] = await Promise.all([first.run('UNWIND range(1, 2500) AS n RETURN n'), first.run('UNWIND range(1, 1500) AS n RETURN n')])
    assert.deepEqual([a.records.length, b.records.length], [2500, 1500])
    await first.rollback()
    assert.equal((await one('MATCH (p:JsTx) RETURN count(p)')).toNumber(), 0)
    const second = await session.beginTransaction()
    await second.run('CREATE (:JsTx)')
    await second.commit()
    assert.equal((await one('MATCH (p:JsTx) RETURN count(p)')).toNumber(), 1)
    await session.close()
  },

  async managedRetries () {
    await query('MERGE (c:JsCount {_key: 1}) SET c.n = 0')
    let attempts = 0
    const session = driver.session(people)
    await session.executeWrite(async tx => {
      attempts++
      const n = (await tx.run('MATCH (c:JsCount {_key: 1}) RETURN c.n AS n')).records[0].get('n').toNumber()
      if (attempts === 1) await query('MATCH (c:JsCount {_key: 1}) SET c.n = 10')
      await tx.run('MATCH (c:JsCount {_key: 1}) SET c.n = $n', { n: neo4j.int(n + 1) })
    })
    await session.close()
    assert.equal(attempts, 2)
    assert.equal((await one('MATCH (c:JsCount {_key: 1}) RETURN c.n')).toNumber(), 11)
  },

  async values () {
    const values = [
      null, true, neo4j.int(-17), neo4j.int('9223372036854775807'), 0.5, '', 'ä€', 'x'.repeat(70000), [], [neo4j.int(1), ['a']],
      { a: { b: [neo4j.int(1)] } }, new neo4j.types.Date(2026, 11, 21), new neo4j.types.LocalTime(23, 59, 59, 999999999),
      new neo4j.types.Time(1, 2, 3, 4, -12600), new neo4j.types.LocalDateTime(1969, 12, 31, 23, 59, 59, 1),
      new neo4j.types.DateTime(2026, 7, 1, 12, 0, 0, 5, 19800), new neo4j.types.Duration(-14, 3, 5, 7),
      new neo4j.types.Point(neo4j.int(4326), 12.5, 41.9), new neo4j.types.Point(neo4j.int(9157), 1.5, 2.5, 3.5)
    ]
    for (const value of values) {
      assert.equal(String(await one('RETURN $value', { value })), String(value))
    }
    const bytes = new Int8Array([0, 1, -1])
    assert.deepEqual(Array.from(await one('RETURN $bytes', { bytes })), [0, 1, -1])
    const rome = new neo4j.types.DateTime(2026, 7, 1, 12, 0, 0, 0, undefined, 'Europe/Rome')
    assert.equal(await one('RETURN toString($rome)', { rome }), '2026-07-01T12:00+02:00[Europe/Rome]')
    assert.equal((await one('RETURN $rome', { rome })).timeZoneId, 'Europe/Rome')
    const path = await one('CREATE p = (:JsV {n: 1})-[:TO {w: 1.5}]->(:JsV {n: 2})<-[:TO]-(:JsV {n: 3}) RETURN p')
    assert.deepEqual(path.segments.map(one => one.end.properties.n.toNumber()), [2, 3])
    assert.equal(path.segments[0].relationship.properties.w, 1.5)
    assert.equal(path.segments[1].relationship.startNodeElementId, path.end.elementId)
  },

  async slowStream () {
    const session = driver.session({ ...people, fetchSize: 100 })
    let sum = 0
    let count = 0
    for await (const record of session.run('UNWIND range(1, 10000) AS n RETURN n')) {
      sum += record.get('n').toNumber()
      if (++count % 2000 === 0) await pause(30)
    }
    assert.equal(sum, 10000 * 10001 / 2)
    for await (const record of session.run('UNWIND range(1, 100000000) AS n RETURN n')) {
      assert.equal(record.get('n').toNumber(), 1)
      break
    }
    await session.close()
  },

  // Its session prefetches, and is closed while it does: RESET is sent before the rest is discarded.
  async reactiveStream () {
    for (const scheme of ['bolt', 'neo4j']) {
      const reactive = neo4j.driver(`${scheme}://${process.env.BOLT}`, auth)
      for (const count of [1, 3, 10, 11]) {
        const session = reactive.rxSession({ ...people, fetchSize: 3 })
        await new Promise((resolve, reject) => {
          let seen = 0
          const records = session.run('UNWIND range(1, 100000) AS n RETURN n').records()
          const reading = records.subscribe({
            next: () => {
              if (++seen !== count) return
              reading.unsubscribe()
              resolve()
            },
            error: reject
          })
        })
        await session.close().toPromise()
        const next = reactive.session(people)
        const run = next.run('RETURN 1')
        const settled = await Promise.race([run, pause(5000, 'nothing came')])
        assert.equal(settled.records?.length, 1, String(settled))
        await next.close()
      }
      await reactive.close()
    }
  },

  async bookmarks () {
    const session = driver.session(people)
    await session.run('CREATE (:JsB)')
    const bookmarks = session.lastBookmarks()
    assert.match(bookmarks[0], /^isomer:people:\d+$/)
    await session.close()
    const next = driver.session({ ...people, bookmarks })
    assert.equal((await next.run('MATCH (b:JsB) RETURN count(b)')).records[0].get(0).toNumber(), 1)
    await next.close()
  },

  async severalDatabases () {
    await query('CREATE (:JsOther)', {}, { database: 'other' })
    assert.equal((await one('MATCH (o:JsOther) RETURN count(o)')).toNumber(), 0)
    await refused('Neo.ClientError.Database.DatabaseNotFound', () => query('RETURN 1', {}, { database: 'nowhere' }))
    const routed = neo4j.driver(`neo4j://${process.env.BOLT}`, auth)
    const { records } = await routed.executeQuery('MATCH (o:JsOther) RETURN count(o)', {}, { database: 'other', routing: 'READ' })
    assert.equal(records[0].get(0).toNumber(), 1)
    await routed.close()
  },

  async timeLimits () {
    const session = driver.session(people)
    const long = 'UNWIND range(1, 100000000) AS a WITH a WHERE a % 7 = 8 RETURN count(a)'
    await refused('Neo.ClientError.Transaction.TransactionTimedOut', () => session.run(long, {}, { timeout: 300 }))
    assert.equal((await session.run('RETURN 1')).records.length, 1)
    // Closing a session cancels its query (RESET).
    const tx = await session.beginTransaction()
    const stopped = tx.run(long).then(() => undefined, error => error)
    await pause(100)
    const began = Date.now()
    await session.close().catch(() => {})
    await driver.verifyConnectivity(people)
    assert.ok(Date.now() - began < 25000)
    assert.ok(await stopped, 'the query came to its end')
  },

  async errors () {
    const error = await refused('Neo.ClientError.Statement.SyntaxError', () => query('RETRUN 1'))
    assert.equal(error.gqlStatus, '42001')
    await refused('Neo.ClientError.Statement.ParameterMissing', () => query('RETURN $x'))
    await query('CREATE (:JsKey {_key: 1})')
    await refused('Neo.ClientError.Schema.ConstraintValidationFailed', () => query('CREATE (:JsKey {_key: 1})'))
    await refused('Neo.ClientError.Statement.AccessMode', () => query('CREATE (:No)', {}, { ...people, routing: 'READ' }))
  },

  async plans () {
    const session = driver.session(people)
    const explained = await session.run('EXPLAIN MATCH (n:Js) RETURN n.name AS name')
    assert.ok(explained.summary.plan.operatorType)
    assert.equal(explained.records.length, 0)
    const { summary } = await session.run('PROFILE UNWIND [1, 2] AS n RETURN n')
    assert.equal(summary.profile.rows, 2)
    const statuses = (await session.run('MATCH (n:JsNothing) RETURN n')).summary.gqlStatusObjects
    assert.deepEqual(statuses.map(one => one.gqlStatus), ['02000', '01N50'])
    await session.close()
  },

  async rights () {
    const reader = neo4j.driver(url, neo4j.auth.basic('reader', password))
    assert.equal((await reader.executeQuery('RETURN 1')).records.length, 1)
    await refused('Neo.ClientError.Security.Forbidden', () => reader.executeQuery('CREATE (:No)'))
    await refused('Neo.ClientError.Security.Forbidden', () => reader.executeQuery('RETURN 1', {}, { database: 'other' }))
    await reader.close()
  },

  async manyAtOnce () {
    const all = await Promise.all(Array.from({ length: 500 }, (_, n) => one('RETURN $n', { n: neo4j.int(n) })))
    assert.equal(all.reduce((sum, n) => sum + n.toNumber(), 0), 499 * 250)
  }
}

let failed = 0
for (const [name, test] of Object.entries(tests)) {
  let outcome = 'ok'
  try {
    await test()
  } catch (error) {
    console.error(error)
    outcome = 'FAILED'
    failed++
  }
  console.log(`test javascript::${name} ... ${outcome}`)
}
await driver.close()
console.log(`test result: ${failed ? 'FAILED' : 'ok'}. ${Object.keys(tests).length - failed} passed; ${failed} failed; 0 ignored`)
process.exit(failed ? 1 : 0)
