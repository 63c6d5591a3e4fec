// Spring Data Neo4j: projections, versions, transactions, the client and the template; generated numbers as ids, with the
// default dialect. (A process has one dialect.)

package spring.numbers;

import static harness.Harness.same;

import harness.Harness;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.dao.OptimisticLockingFailureException;
import org.springframework.data.annotation.Version;
import org.springframework.data.neo4j.core.Neo4jClient;
import org.springframework.data.neo4j.core.Neo4jTemplate;
import org.springframework.data.neo4j.core.schema.GeneratedValue;
import org.springframework.data.neo4j.core.schema.Id;
import org.springframework.data.neo4j.core.schema.Node;
import org.springframework.data.neo4j.core.schema.Relationship;
import org.springframework.data.neo4j.repository.Neo4jRepository;
import org.springframework.data.neo4j.repository.config.EnableNeo4jRepositories;
import org.springframework.data.neo4j.repository.query.Query;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;
import spring.Connected;

public class Numbers {
    @Node("SpringAuthor")
    public static class Author {
        @Id @GeneratedValue public Long id;
        @Version public Long version;
        public String name;
        @Relationship(type = "SPRING_WROTE") public List<Book> books = new ArrayList<>();

        public Author() {}

        public Author(String name) {
            this.name = name;
        }
    }

    @Node("SpringBook")
    public static class Book {
        @Id @GeneratedValue public Long id;
        public String title;
        public Integer year;

        public Book() {}

        public Book(String title, Integer year) {
            this.title = title;
            this.year = year;
        }
    }

    public interface Name {
        String getName();
    }

    public interface Authors extends Neo4jRepository<Author, Long> {
        List<Author> findByNameStartingWith(String start);

        List<Name> findByBooksTitle(String title);

        @Query("MATCH (a:SpringAuthor)-[:SPRING_WROTE]->(:SpringBook {title: $title}) RETURN a.name")
        List<String> namesOfBook(String title);
    }

    @Configuration
    @EnableNeo4jRepositories(basePackageClasses = Numbers.class, considerNestedRepositories = true)
    public static class Config extends Connected {
        @Override
        protected Collection<String> getMappingBasePackages() {
            return List.of("spring.numbers");
        }
    }

    static Authors authors;
    static Neo4jClient client;
    static Neo4jTemplate template;
    static PlatformTransactionManager transactions;

    static void numbersAreIds() {
        var author = new Author("Ursula");
        author.books.add(new Book("Dispossessed", 1974));
        author.books.add(new Book("Lathe", 1971));
        var saved = authors.save(author);
        same(true, saved.id != null && saved.version == 0);
        var loaded = authors.findById(saved.id).orElseThrow();
        same(List.of("Dispossessed", "Lathe"), loaded.books.stream().map(one -> one.title).sorted().toList());
        loaded.name = "Ursula K.";
        same(1L, authors.save(loaded).version);
        same(List.of(saved.id), authors.findByNameStartingWith("Urs").stream().map(one -> one.id).toList());
        same(List.of("Ursula K."), authors.namesOfBook("Lathe"));
        same(List.of("Ursula K."), authors.findByBooksTitle("Lathe").stream().map(Name::getName).toList());
    }

    static void staleVersionsAreRefused() {
        var saved = authors.save(new Author("Stale"));
        var stale = authors.findById(saved.id).orElseThrow();
        saved.name = "Fresh";
        authors.save(saved);
        stale.name = "Lost";
        Harness.refused(OptimisticLockingFailureException.class, () -> authors.save(stale));
        same("Fresh", authors.findById(saved.id).orElseThrow().name);
    }

    static void transactionsRollBack() {
        var template = new TransactionTemplate(transactions);
        long before = authors.count();
        Harness.refused(IllegalStateException.class, () -> template.execute(status -> {
            authors.save(new Author("Never"));
            same(before + 1, authors.count());
            throw new IllegalStateException("roll back");
        }));
        same(before, authors.count());
        template.execute(status -> authors.save(new Author("Always")));
        same(before + 1, authors.count());
    }

    static void clientAndTemplateRunStatements() {
        client.query("CREATE (:SpringRow {n: $n})").bind(7).to("n").run();
        same(7L, client.query("MATCH (r:SpringRow) RETURN r.n AS n").fetchAs(Long.class).one().orElseThrow());
        same(authors.count(), template.count(Author.class));
        same("Always", template.findOne("MATCH (a:SpringAuthor {name: $name}) RETURN a", Map.of("name", "Always"), Author.class)
                .orElseThrow().name);
        authors.deleteAll();
        same(0L, template.count(Author.class));
    }

    public static void main(String[] arguments) {
        var harness = new Harness("spring-numbers");
        var context = new AnnotationConfigApplicationContext(Config.class);
        authors = context.getBean(Authors.class);
        client = context.getBean(Neo4jClient.class);
        template = context.getBean(Neo4jTemplate.class);
        transactions = context.getBean(PlatformTransactionManager.class);
        harness
                .test("numbersAreIds", Numbers::numbersAreIds)
                .test("staleVersionsAreRefused", Numbers::staleVersionsAreRefused)
                .test("transactionsRollBack", Numbers::transactionsRollBack)
                .test("clientAndTemplateRunStatements", Numbers::clientAndTemplateRunStatements)
                .run(arguments);
    }
}
