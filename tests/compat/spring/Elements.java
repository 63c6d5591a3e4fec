// Spring Data Neo4j: repositories, with generated element ids and the dialect of Neo4j 5.

package spring.elements;

import static harness.Harness.same;

import harness.Harness;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import org.neo4j.cypherdsl.core.renderer.Dialect;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.domain.Example;
import org.springframework.data.domain.PageRequest;
import org.springframework.data.domain.Sort;
import org.springframework.data.neo4j.core.schema.GeneratedValue;
import org.springframework.data.neo4j.core.schema.Id;
import org.springframework.data.neo4j.core.schema.Node;
import org.springframework.data.neo4j.core.schema.Relationship;
import org.springframework.data.neo4j.core.schema.RelationshipId;
import org.springframework.data.neo4j.core.schema.RelationshipProperties;
import org.springframework.data.neo4j.core.schema.TargetNode;
import org.springframework.data.neo4j.repository.Neo4jRepository;
import org.springframework.data.neo4j.repository.config.EnableNeo4jRepositories;
import spring.Connected;

public class Elements {
    @Node("SpringPerson")
    public static class Person {
        @Id @GeneratedValue public String id;
        public String name;
        public Integer born;
        @Relationship(type = "SPRING_KNOWS") public List<Person> knows = new ArrayList<>();
        @Relationship(type = "SPRING_LIKES") public List<Liking> likes = new ArrayList<>();

        public Person() {}

        public Person(String name, Integer born) {
            this.name = name;
            this.born = born;
        }
    }

    @Node("SpringThing")
    public static class Thing {
        @Id @GeneratedValue public String id;
        public String name;

        public Thing() {}

        public Thing(String name) {
            this.name = name;
        }
    }

    @RelationshipProperties
    public static class Liking {
        @RelationshipId public String id;
        public Integer much;
        @TargetNode public Thing thing;

        public Liking() {}

        public Liking(Thing thing, Integer much) {
            this.thing = thing;
            this.much = much;
        }
    }

    public interface People extends Neo4jRepository<Person, String> {
        List<Person> findByName(String name);

        List<Person> findByBornGreaterThanOrderByName(Integer born);

        boolean existsByName(String name);
    }

    @Configuration
    @EnableNeo4jRepositories(basePackageClasses = Elements.class, considerNestedRepositories = true)
    public static class Config extends Connected {
        @Override
        protected Collection<String> getMappingBasePackages() {
            return List.of("spring.elements");
        }

        @Bean
        public org.neo4j.cypherdsl.core.renderer.Configuration cypherDslConfiguration() {
            return org.neo4j.cypherdsl.core.renderer.Configuration.newConfig().withDialect(Dialect.NEO4J_5).build();
        }
    }

    static People people;

    static List<String> names(Collection<Person> found) {
        return found.stream().map(one -> one.name).sorted().toList();
    }

    static void savedIsFound() {
        var solo = people.save(new Person("Solo", 1990));
        same(true, solo.id.startsWith("4:"));
        same(1, people.findByName("Solo").size());
        same(solo.id, people.findByName("Solo").get(0).id);
        same("Solo", people.findById(solo.id).orElseThrow().name);
        same(1, people.findAllById(List.of(solo.id)).size());
        same(true, people.existsById(solo.id) && people.existsByName("Solo"));
        same(false, people.findById(solo.id.replaceFirst("^4:", "5:")).isPresent());
    }

    static void savedAgainIsTheSame() {
        var ada = people.save(new Person("Ada", 1815));
        var loaded = people.findById(ada.id).orElseThrow();
        loaded.born = 1816;
        same(ada.id, people.save(loaded).id);
        same(List.of(1816), people.findByName("Ada").stream().map(one -> one.born).toList());
    }

    static void relationshipsComeBack() {
        var first = new Person("First", 2001);
        var second = new Person("Second", 2002);
        first.knows.add(second);
        second.knows.add(first);
        first.likes.add(new Liking(new Thing("tea"), 3));
        var id = people.save(first).id;
        var loaded = people.findById(id).orElseThrow();
        same(List.of("Second"), names(loaded.knows));
        same(List.of("First"), names(loaded.knows.get(0).knows));
        var liking = loaded.likes.get(0);
        same(true, liking.id.startsWith("5:") && liking.thing.id.startsWith("4:"));
        // Saving again updates the relationship, and adds none.
        liking.much = 4;
        people.save(loaded);
        var again = people.findById(id).orElseThrow();
        same(1, again.likes.size());
        same(liking.id, again.likes.get(0).id);
        same(4, again.likes.get(0).much);
        again.likes.clear();
        people.save(again);
        same(0, people.findById(id).orElseThrow().likes.size());
    }

    static void manyArePagedAndCounted() {
        people.deleteAll();
        var many = new ArrayList<Person>();
        for (int at = 0; at < 250; at++) {
            many.add(new Person("P" + (1000 + at), 1900 + at));
        }
        var ids = people.saveAll(many).stream().map(one -> one.id).toList();
        same(250, new HashSet<>(ids).size());
        same(250L, people.count());
        same(250, people.findAll().size());
        same(250, people.findAllById(ids).size());
        var seen = new ArrayList<String>();
        for (int page = 0; page < 5; page++) {
            var found = people.findAll(PageRequest.of(page, 60, Sort.by("name")));
            same(250L, found.getTotalElements());
            found.forEach(one -> seen.add(one.name));
        }
        same(many.stream().map(one -> one.name).toList(), seen);
        same(49, people.findByBornGreaterThanOrderByName(2100).size());
        same(1, people.findAll(Example.of(new Person("P1007", 1907))).size());
        people.deleteById(ids.get(0));
        people.deleteAllById(ids.subList(1, 11));
        same(239L, people.count());
    }

    public static void main(String[] arguments) {
        var harness = new Harness("spring-elements");
        people = new AnnotationConfigApplicationContext(Config.class).getBean(People.class);
        harness
                .test("savedIsFound", Elements::savedIsFound)
                .test("savedAgainIsTheSame", Elements::savedAgainIsTheSame)
                .test("relationshipsComeBack", Elements::relationshipsComeBack)
                .test("manyArePagedAndCounted", Elements::manyArePagedAndCounted)
                .run(arguments);
    }
}
