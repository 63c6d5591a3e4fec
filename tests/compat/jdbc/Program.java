// Neo4j's JDBC driver: statements, batches, transactions, and the metadata that SQL tools read first.

package jdbc;

import static harness.Harness.same;

import harness.Harness;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;

public class Program {
    static Connection connection;

    static Connection connect(String password) throws SQLException {
        var properties = new Properties();
        properties.put("user", Harness.USER);
        properties.put("password", password);
        return DriverManager.getConnection("jdbc:neo4j://" + Harness.BOLT + "/people", properties);
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        var found = new ArrayList<String>();
        while (rows.next()) {
            found.add(rows.getString(name));
        }
        return found;
    }

    static void statementsReturnRows() throws SQLException {
        try (var statement = connection.createStatement()) {
            same(0, statement.executeUpdate("CREATE CONSTRAINT person_name FOR (p:Person) REQUIRE p.name IS UNIQUE"));
            statement.executeUpdate("CREATE (:Person {name: 'Ada', born: date('1815-12-10'), age: 36, rate: 1.5})-[:KNOWS {since: 1}]->(:Person {name: 'Bob'})");
            var rows = statement.executeQuery("MATCH (p:Person {name: 'Ada'}) RETURN p.name AS name, p.born AS born, p.age AS age, p.rate AS rate, p.none AS none");
            same(true, rows.next());
            same("Ada", rows.getString("name"));
            same(LocalDate.of(1815, 12, 10), rows.getDate("born").toLocalDate());
            same(36, rows.getInt("age"));
            same(1.5, rows.getDouble(4));
            same(null, rows.getObject("none"));
            same(true, rows.wasNull());
            same(false, rows.next());
            same("name", rows.getMetaData().getColumnLabel(1));
        }
    }

    static void parametersAreBound() throws SQLException {
        try (var prepared = connection.prepareStatement("MATCH (p:Person) WHERE p.name = $1 RETURN p.age AS age")) {
            prepared.setString(1, "Ada");
            same(List.of("36"), column(prepared.executeQuery(), "age"));
        }
        try (var prepared = connection.prepareStatement("UNWIND $1 AS x RETURN x.n AS n")) {
            prepared.setObject(1, List.of(Map.of("n", 1), Map.of("n", 2)));
            same(List.of("1", "2"), column(prepared.executeQuery(), "n"));
        }
    }

    static void batchesAreExecuted() throws SQLException {
        try (var prepared = connection.prepareStatement("CREATE (:Batch {n: $1})")) {
            for (int at = 0; at < 5; at++) {
                prepared.setInt(1, at);
                prepared.addBatch();
            }
            prepared.executeBatch();
        }
        same(List.of("5"), query("MATCH (b:Batch) RETURN count(b) AS n", "n"));
    }

    static List<String> query(String text, String name) throws SQLException {
        try (var statement = connection.createStatement()) {
            return column(statement.executeQuery(text), name);
        }
    }

    static void transactionsRollBack() throws SQLException {
        connection.setAutoCommit(false);
        try (var statement = connection.createStatement()) {
            statement.executeUpdate("CREATE (:Tx {n: 1})");
            connection.rollback();
            statement.executeUpdate("CREATE (:Tx {n: 2})");
            connection.commit();
        }
        connection.setAutoCommit(true);
        same(List.of("2"), query("MATCH (t:Tx) RETURN t.n AS n", "n"));
    }

    static void failuresLeaveTheConnectionUsable() throws SQLException {
        Harness.refused(SQLException.class, () -> query("CREATE (p:Person {name: 'Ada'}) RETURN p", "p"));
        Harness.refused(SQLException.class, () -> query("no statement", "p"));
        same(List.of("1"), query("RETURN 1 AS n", "n"));
        Harness.refused(Exception.class, () -> connect("wrong").createStatement().executeQuery("RETURN 1"));
    }

    static void databaseDescribesItself() throws SQLException {
        var data = connection.getMetaData();
        same("Neo4j Kernel-community-5", data.getDatabaseProductName().replaceFirst("(-5).*", "$1"));
        same(true, data.getDatabaseProductVersion().startsWith("5."));
        same(Harness.USER, data.getUserName());
        same(false, data.isReadOnly());
        same(true, column(data.getCatalogs(), "TABLE_CAT").contains("people"));
        same(List.of("public"), column(data.getSchemas(), "TABLE_SCHEM"));
    }

    static void labelsAreTables() throws SQLException {
        var data = connection.getMetaData();
        var tables = new TreeSet<>(column(data.getTables(null, null, null, new String[] {"TABLE"}), "TABLE_NAME"));
        same(List.of("Batch", "Person", "Tx"), List.copyOf(tables));
        var columns = data.getColumns(null, null, "Person", null);
        var types = new TreeSet<String>();
        while (columns.next()) {
            types.add(columns.getString("COLUMN_NAME") + " " + columns.getInt("DATA_TYPE"));
        }
        same(true, types.contains("name " + Types.VARCHAR) && types.contains("age " + Types.BIGINT));
        same(List.of("name"), column(data.getPrimaryKeys(null, null, "Person"), "COLUMN_NAME"));
        same(List.of("name"), column(data.getIndexInfo(null, null, "Person", true, false), "COLUMN_NAME"));
    }

    static void proceduresAndFunctionsAreListed() throws SQLException {
        var data = connection.getMetaData();
        same(true, column(data.getProcedures(null, null, null), "PROCEDURE_NAME").contains("db.labels"));
        same(true, column(data.getFunctions(null, null, null), "FUNCTION_NAME").contains("toUpper"));
        same(List.of("label"), column(data.getProcedureColumns(null, null, "db.labels", null), "COLUMN_NAME"));
    }

    public static void main(String[] arguments) throws SQLException {
        connection = connect(Harness.PASSWORD);
        new Harness("jdbc")
                .test("statementsReturnRows", Program::statementsReturnRows)
                .test("parametersAreBound", Program::parametersAreBound)
                .test("batchesAreExecuted", Program::batchesAreExecuted)
                .test("transactionsRollBack", Program::transactionsRollBack)
                .test("failuresLeaveTheConnectionUsable", Program::failuresLeaveTheConnectionUsable)
                .test("databaseDescribesItself", Program::databaseDescribesItself)
                .test("labelsAreTables", Program::labelsAreTables)
                .test("proceduresAndFunctionsAreListed", Program::proceduresAndFunctionsAreListed)
                .run(arguments);
    }
}
