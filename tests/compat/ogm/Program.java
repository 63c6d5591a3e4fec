// Neo4j-OGM: entities, relationship entities, filters, paging, queries, transactions, as its reference shows.

package ogm;

import static harness.Harness.same;

import harness.Harness;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.stream.StreamSupport;
import org.neo4j.ogm.annotation.EndNode;
import org.neo4j.ogm.annotation.GeneratedValue;
import org.neo4j.ogm.annotation.Id;
import org.neo4j.ogm.annotation.Labels;
import org.neo4j.ogm.annotation.NodeEntity;
import org.neo4j.ogm.annotation.Properties;
import org.neo4j.ogm.annotation.Property;
import org.neo4j.ogm.annotation.Relationship;
import org.neo4j.ogm.annotation.RelationshipEntity;
import org.neo4j.ogm.annotation.StartNode;
import org.neo4j.ogm.annotation.typeconversion.Convert;
import org.neo4j.ogm.config.Configuration;
import org.neo4j.ogm.cypher.ComparisonOperator;
import org.neo4j.ogm.cypher.Filter;
import org.neo4j.ogm.cypher.query.Pagination;
import org.neo4j.ogm.cypher.query.SortOrder;
import org.neo4j.ogm.id.UuidStrategy;
import org.neo4j.ogm.session.Session;
import org.neo4j.ogm.session.SessionFactory;
import org.neo4j.ogm.typeconversion.UuidStringConverter;

public class Program {
    @NodeEntity(label = "OgmActor")
    public static class Actor {
        @Id @GeneratedValue public Long id;
        public String name;
        public LocalDate born;
        @Relationship(type = "ACTED_IN") public Set<Role> roles = new HashSet<>();
        @Properties(prefix = "extra") public Map<String, Object> extra = Map.of();
        @Labels public List<String> labels = new ArrayList<>();

        public Actor() {}

        public Actor(String name) {
            this.name = name;
        }
    }

    @NodeEntity(label = "OgmMovie")
    public static class Movie {
        @Id @GeneratedValue(strategy = UuidStrategy.class) @Convert(UuidStringConverter.class) public UUID id;
        public String title;
        @Property(name = "year") public int released;
        @Relationship(type = "ACTED_IN", direction = Relationship.Direction.INCOMING) public Set<Role> roles = new HashSet<>();

        public Movie() {}

        public Movie(String title, int released) {
            this.title = title;
            this.released = released;
        }
    }

    @RelationshipEntity(type = "ACTED_IN")
    public static class Role {
        @Id @GeneratedValue public Long id;
        public String character;
        @StartNode public Actor actor;
        @EndNode public Movie movie;

        public Role() {}

        public Role(Actor actor, String character, Movie movie) {
            this.actor = actor;
            this.character = character;
            this.movie = movie;
            actor.roles.add(this);
            movie.roles.add(this);
        }
    }

    static SessionFactory factory;

    static Session session() {
        return factory.openSession();
    }

    static List<String> titles(Iterable<Movie> movies) {
        return StreamSupport.stream(movies.spliterator(), false).map(one -> one.title).toList();
    }

    static void entitiesAreSavedAndLoaded() {
        var keanu = new Actor("Keanu Reeves");
        keanu.born = LocalDate.of(1964, 9, 2);
        keanu.extra = Map.of("height", 186L);
        keanu.labels.add("Star");
        var matrix = new Movie("The Matrix", 1999);
        new Role(keanu, "Neo", matrix);
        session().save(keanu);
        same(true, keanu.id != null && matrix.id != null);
        var loaded = session().load(Actor.class, keanu.id);
        same(LocalDate.of(1964, 9, 2), loaded.born);
        same(Map.of("height", 186L), loaded.extra);
        same(List.of("Star"), loaded.labels);
        var role = loaded.roles.iterator().next();
        same("Neo", role.character);
        same(matrix.id, role.movie.id);
        same("The Matrix", session().load(Movie.class, matrix.id).title);
    }

    static void changesAreSaved() {
        var session = session();
        var actor = session.loadAll(Actor.class).iterator().next();
        actor.name = "Keanu";
        new Role(actor, "John", new Movie("John Wick", 2014));
        session.save(actor);
        var again = session().load(Actor.class, actor.id);
        same("Keanu", again.name);
        same(2, again.roles.size());
    }

    static void filtersSortAndPage() {
        var session = session();
        for (int at = 0; at < 10; at++) {
            session.save(new Movie("Film " + at, 2000 + at));
        }
        var late = session.loadAll(Movie.class, new Filter("released", ComparisonOperator.GREATER_THAN, 2007));
        same(3, late.size());
        var like = new Filter("title", ComparisonOperator.STARTING_WITH, "Film").and(new Filter("released", ComparisonOperator.LESS_THAN, 2003));
        same(3, session.loadAll(Movie.class, like).size());
        var page = session.loadAll(Movie.class, new SortOrder().desc("released"), new Pagination(1, 3), 0);
        same(List.of("Film 7", "Film 6", "Film 5"), titles(page));
        same(12L, session.countEntitiesOfType(Movie.class));
        same(1L, session.count(Movie.class, List.of(new Filter("title", ComparisonOperator.EQUALS, "Film 3"))));
        Collection<Actor> none = session.loadAll(Actor.class, new Filter("name", ComparisonOperator.EQUALS, "Nobody"));
        same(0, none.size());
    }

    static void statementsReturnEntitiesAndRows() {
        var session = session();
        var found = session.queryForObject(Movie.class, "MATCH (m:OgmMovie {title: $title}) RETURN m", Map.of("title", "Film 4"));
        same(2004, found.released);
        same(12L, session.queryForObject(Long.class, "MATCH (m:OgmMovie) RETURN count(m)", Map.of()));
        var rows = session.query("MATCH (m:OgmMovie) WHERE m.year < $y RETURN m.title AS title ORDER BY m.year", Map.of("y", 2001)).queryResults();
        same(List.of("The Matrix", "Film 0"), StreamSupport.stream(rows.spliterator(), false).map(row -> row.get("title")).toList());
        var statistics = session.query("CREATE (:OgmRow {n: 1})", Map.of()).queryStatistics();
        same(1, statistics.getNodesCreated());
    }

    static void transactionsRollBack() {
        var session = session();
        try (var transaction = session.beginTransaction()) {
            session.save(new Movie("Never", 1));
            transaction.rollback();
        }
        try (var transaction = session.beginTransaction()) {
            session.save(new Movie("Always", 2));
            transaction.commit();
        }
        var titles = titles(session().loadAll(Movie.class, new Filter("released", ComparisonOperator.LESS_THAN, 10)));
        same(List.of("Always"), titles);
    }

    static void entitiesAreDeleted() {
        var session = session();
        session.delete(session.loadAll(Actor.class).iterator().next());
        same(0L, session().countEntitiesOfType(Actor.class));
        session.deleteAll(Movie.class);
        same(0L, session().countEntitiesOfType(Movie.class));
        session.purgeDatabase();
        same(0L, session().queryForObject(Long.class, "MATCH (n) RETURN count(n)", Map.of()));
    }

    public static void main(String[] arguments) {
        var configuration = new Configuration.Builder()
                .uri("bolt://" + Harness.BOLT)
                .credentials(Harness.USER, Harness.PASSWORD)
                .database("people")
                .verifyConnection(true)
                .build();
        factory = new SessionFactory(configuration, "ogm");
        new Harness("ogm")
                .test("entitiesAreSavedAndLoaded", Program::entitiesAreSavedAndLoaded)
                .test("changesAreSaved", Program::changesAreSaved)
                .test("filtersSortAndPage", Program::filtersSortAndPage)
                .test("statementsReturnEntitiesAndRows", Program::statementsReturnEntitiesAndRows)
                .test("transactionsRollBack", Program::transactionsRollBack)
                .test("entitiesAreDeleted", Program::entitiesAreDeleted)
                .run(arguments);
    }
}
