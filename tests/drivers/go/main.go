// The Go driver against a server: see ../README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
)

var (
	ctx      = context.Background()
	host     = os.Getenv("BOLT")
	password = os.Getenv("PASSWORD")
	driver   neo4j.DriverWithContext
	people   = neo4j.SessionConfig{DatabaseName: "people"}
)

type parameters = map[string]any

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func same(expected, found any) {
	if !reflect.DeepEqual(expected, found) {
		panic(fmt.Sprintf("expected %#v, found %#v", expected, found))
	}
}

func refused(code string, err error) {
	var failure *neo4j.Neo4jError
	if !errors.As(err, &failure) {
		panic(fmt.Sprintf("%s was expected, not %v", code, err))
	}
	same(code, failure.Code)
}

func query(database, text string, values parameters) (*neo4j.EagerResult, error) {
	return neo4j.ExecuteQuery(ctx, driver, text, values, neo4j.EagerResultTransformer, neo4j.ExecuteQueryWithDatabase(database))
}

func one(text string, values parameters) any {
	result, err := query("people", text, values)
	must(err)
	return result.Records[0].Values[0]
}

func with(config neo4j.SessionConfig, use func(neo4j.SessionWithContext)) {
	session := driver.NewSession(ctx, config)
	defer session.Close(ctx)
	use(session)
}

func autoCommit() {
	with(people, func(session neo4j.SessionWithContext) {
		result, err := session.Run(ctx, "CREATE (p:Go {name: $name}) RETURN p", parameters{"name": "Ada"})
		must(err)
		record, err := result.Single(ctx)
		must(err)
		same([]string{"Go"}, record.Values[0].(neo4j.Node).Labels)
		summary, err := result.Consume(ctx)
		must(err)
		same(1, summary.Counters().NodesCreated())
		same("people", summary.Database().Name())
	})
	same(int64(1), one("MATCH (p:Go) RETURN count(p)", nil))
}

func explicitTransactions() {
	with(people, func(session neo4j.SessionWithContext) {
		tx, err := session.BeginTransaction(ctx)
		must(err)
		_, err = tx.Run(ctx, "CREATE (:GoTx)", nil)
		must(err)
		a, err := tx.Run(ctx, "UNWIND range(1, 2500) AS n RETURN n", nil)
		must(err)
		b, err := tx.Run(ctx, "UNWIND range(1, 1500) AS n RETURN n", nil)
		must(err)
		second, err := b.Collect(ctx)
		must(err)
		first, err := a.Collect(ctx)
		must(err)
		same([]int{2500, 1500}, []int{len(first), len(second)})
		must(tx.Rollback(ctx))
		same(int64(0), one("MATCH (p:GoTx) RETURN count(p)", nil))
		tx, err = session.BeginTransaction(ctx)
		must(err)
		_, err = tx.Run(ctx, "CREATE (:GoTx)", nil)
		must(err)
		must(tx.Commit(ctx))
	})
	same(int64(1), one("MATCH (p:GoTx) RETURN count(p)", nil))
}

func managedRetries() {
	one("MERGE (c:GoCount {_key: 1}) SET c.n = 0 RETURN c", nil)
	attempts := 0
	with(people, func(session neo4j.SessionWithContext) {
		_, err := session.ExecuteWrite(ctx, func(tx neo4j.ManagedTransaction) (any, error) {
			attempts++
			result, err := tx.Run(ctx, "MATCH (c:GoCount {_key: 1}) RETURN c.n", nil)
			if err != nil {
				return nil, err
			}
			record, err := result.Single(ctx)
			if err != nil {
				return nil, err
			}
			if attempts == 1 {
				one("MATCH (c:GoCount {_key: 1}) SET c.n = 10 RETURN c", nil)
			}
			return tx.Run(ctx, "MATCH (c:GoCount {_key: 1}) SET c.n = $n", parameters{"n": record.Values[0].(int64) + 1})
		})
		must(err)
	})
	same(2, attempts)
	same(int64(11), one("MATCH (c:GoCount {_key: 1}) RETURN c.n", nil))
}

func values() {
	rome, err := time.LoadLocation("Europe/Rome")
	must(err)
	for _, value := range []any{
		nil, true, int64(-17), int64(-1 << 63), 0.5, "", "ä€", strings.Repeat("x", 70000), []byte{0, 255},
		[]any{}, []any{int64(1), []any{"a"}}, map[string]any{"a": map[string]any{"b": int64(1)}},
		neo4j.Duration{Months: -14, Days: 3, Seconds: 5, Nanos: 7}, neo4j.Point2D{X: 12.5, Y: 41.9, SpatialRefId: 4326},
		neo4j.Point3D{X: 1.5, Y: 2.5, Z: 3.5, SpatialRefId: 9157},
	} {
		same(value, one("RETURN $value", parameters{"value": value}))
	}
	at := time.Date(2026, 7, 1, 12, 0, 0, 5, rome)
	back := one("RETURN $at", parameters{"at": at}).(time.Time)
	same(true, back.Equal(at))
	same("Europe/Rome", back.Location().String())
	for _, value := range []any{neo4j.DateOf(at), neo4j.LocalTimeOf(at), neo4j.LocalDateTimeOf(at), neo4j.OffsetTimeOf(at)} {
		same(fmt.Sprint(value), fmt.Sprint(one("RETURN $value", parameters{"value": value})))
	}
	path := one("CREATE p = (:GoV {n: 1})-[:TO {w: 1.5}]->(:GoV {n: 2})<-[:TO]-(:GoV {n: 3}) RETURN p", nil).(neo4j.Path)
	same(3, len(path.Nodes))
	same(int64(3), path.Nodes[2].Props["n"])
	same(1.5, path.Relationships[0].Props["w"])
	same(path.Nodes[2].ElementId, path.Relationships[1].StartElementId)
}

func slowStream() {
	with(neo4j.SessionConfig{DatabaseName: "people", FetchSize: 100}, func(session neo4j.SessionWithContext) {
		result, err := session.Run(ctx, "UNWIND range(1, 10000) AS n RETURN n", nil)
		must(err)
		sum := int64(0)
		for count := 1; result.Next(ctx); count++ {
			sum += result.Record().Values[0].(int64)
			if count%2000 == 0 {
				time.Sleep(30 * time.Millisecond)
			}
		}
		must(result.Err())
		same(int64(10000*10001/2), sum)
		result, err = session.Run(ctx, "UNWIND range(1, 100000000) AS n RETURN n", nil)
		must(err)
		same(true, result.Next(ctx))
	})
}

func bookmarks() {
	var marks neo4j.Bookmarks
	with(people, func(session neo4j.SessionWithContext) {
		result, err := session.Run(ctx, "CREATE (:GoB)", nil)
		must(err)
		_, err = result.Consume(ctx)
		must(err)
		marks = session.LastBookmarks()
	})
	same(true, strings.HasPrefix(marks[0], "isomer:people:"))
	with(neo4j.SessionConfig{DatabaseName: "people", Bookmarks: marks}, func(session neo4j.SessionWithContext) {
		result, err := session.Run(ctx, "MATCH (b:GoB) RETURN count(b)", nil)
		must(err)
		record, err := result.Single(ctx)
		must(err)
		same(int64(1), record.Values[0])
	})
}

func severalDatabases() {
	_, err := query("other", "CREATE (:GoOther)", nil)
	must(err)
	same(int64(0), one("MATCH (o:GoOther) RETURN count(o)", nil))
	_, err = query("nowhere", "RETURN 1", nil)
	refused("Neo.ClientError.Database.DatabaseNotFound", err)
	routed, err := neo4j.NewDriverWithContext("neo4j://"+host, neo4j.BasicAuth("admin", password, ""))
	must(err)
	defer routed.Close(ctx)
	found, err := neo4j.ExecuteQuery(ctx, routed, "MATCH (o:GoOther) RETURN count(o)", nil, neo4j.EagerResultTransformer,
		neo4j.ExecuteQueryWithDatabase("other"), neo4j.ExecuteQueryWithReadersRouting())
	must(err)
	same(int64(1), found.Records[0].Values[0])
}

func timeLimits() {
	with(people, func(session neo4j.SessionWithContext) {
		long := "UNWIND range(1, 100000000) AS a WITH a WHERE a % 7 = 8 RETURN count(a)"
		result, err := session.Run(ctx, long, nil, neo4j.WithTxTimeout(300*time.Millisecond))
		if err == nil {
			_, err = result.Consume(ctx)
		}
		refused("Neo.ClientError.Transaction.TransactionTimedOut", err)
		_, err = session.Run(ctx, "RETURN 1", nil)
		must(err)
	})
}

func failures() {
	_, err := query("people", "RETRUN 1", nil)
	refused("Neo.ClientError.Statement.SyntaxError", err)
	_, err = query("people", "RETURN $x", nil)
	refused("Neo.ClientError.Statement.ParameterMissing", err)
	one("CREATE (k:GoKey {_key: 1}) RETURN k", nil)
	_, err = query("people", "CREATE (k:GoKey {_key: 1}) RETURN k", nil)
	refused("Neo.ClientError.Schema.ConstraintValidationFailed", err)
	with(neo4j.SessionConfig{DatabaseName: "people", AccessMode: neo4j.AccessModeRead}, func(session neo4j.SessionWithContext) {
		_, err := session.Run(ctx, "CREATE (:No)", nil)
		refused("Neo.ClientError.Statement.AccessMode", err)
	})
}

func plans() {
	with(people, func(session neo4j.SessionWithContext) {
		summary := func(text string) neo4j.ResultSummary {
			result, err := session.Run(ctx, text, nil)
			must(err)
			summary, err := result.Consume(ctx)
			must(err)
			return summary
		}
		same(true, summary("EXPLAIN MATCH (n:Go) RETURN n").Plan().Operator() != "")
		same(int64(2), summary("PROFILE UNWIND [1, 2] AS n RETURN n").Profile().Records())
		statuses := summary("MATCH (n:GoNothing) RETURN n").GqlStatusObjects()
		same([]string{"02000", "01N50"}, []string{statuses[0].GqlStatus(), statuses[1].GqlStatus()})
	})
}

func rights() {
	reader, err := neo4j.NewDriverWithContext("bolt://"+host, neo4j.BasicAuth("reader", password, ""))
	must(err)
	defer reader.Close(ctx)
	ask := func(database, text string) error {
		_, err := neo4j.ExecuteQuery(ctx, reader, text, nil, neo4j.EagerResultTransformer, neo4j.ExecuteQueryWithDatabase(database))
		return err
	}
	must(ask("", "RETURN 1"))
	refused("Neo.ClientError.Security.Forbidden", ask("people", "CREATE (:No)"))
	refused("Neo.ClientError.Security.Forbidden", ask("other", "RETURN 1"))
}

func main() {
	var err error
	driver, err = neo4j.NewDriverWithContext("bolt://"+host, neo4j.BasicAuth("admin", password, ""))
	must(err)
	tests := []struct {
		name string
		run  func()
	}{
		{"auto_commit", autoCommit}, {"explicit_transactions", explicitTransactions}, {"managed_retries", managedRetries},
		{"values", values}, {"slow_stream", slowStream}, {"bookmarks", bookmarks}, {"several_databases", severalDatabases},
		{"time_limits", timeLimits}, {"failures", failures}, {"plans", plans}, {"rights", rights},
	}
	failed := 0
	for _, test := range tests {
		outcome := "ok"
		func() {
			defer func() {
				if cause := recover(); cause != nil {
					fmt.Fprintln(os.Stderr, test.name, cause)
					outcome = "FAILED"
					failed++
				}
			}()
			test.run()
		}()
		fmt.Printf("test go::%s ... %s\n", test.name, outcome)
	}
	driver.Close(ctx)
	result := "ok"
	if failed > 0 {
		result = "FAILED"
	}
	fmt.Printf("test result: %s. %d passed; %d failed; 0 ignored\n", result, len(tests)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
