"""neomodel: models, relationships, queries, transactions, schema, introspection, as its Getting started shows."""

import datetime
import subprocess
import sys

from neomodel import (
    ArrayProperty,
    AsyncStructuredNode,
    BooleanProperty,
    DateProperty,
    DateTimeProperty,
    FloatProperty,
    IntegerProperty,
    JSONProperty,
    One,
    Q,
    RelationshipFrom,
    RelationshipTo,
    StringProperty,
    StructuredNode,
    StructuredRel,
    UniqueIdProperty,
    ZeroOrOne,
    adb,
    db,
    get_config,
)
from neomodel.exceptions import DoesNotExist, UniqueProperty
from neomodel.sync_.match import Collect, Path

from harness import HOST, PASSWORD, PORT, URI, USER, run

ADDRESS = f"bolt://{USER}:{PASSWORD}@{HOST}:{PORT}"


class Country(StructuredNode):
    code = StringProperty(unique_index=True, required=True)
    inhabitants = RelationshipFrom("Person", "IS_FROM", model=StructuredRel)


class City(StructuredNode):
    name = StringProperty(required=True)
    country = RelationshipTo(Country, "FROM_COUNTRY", model=StructuredRel)


class FriendRel(StructuredRel):
    since = DateTimeProperty(default=lambda: datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc), index=True)
    met = StringProperty()


class Person(StructuredNode):
    uid = UniqueIdProperty()
    name = StringProperty(unique_index=True)
    age = IntegerProperty(index=True, default=0)
    height = FloatProperty()
    is_active = BooleanProperty(default=True)
    born = DateProperty()
    tags = ArrayProperty(StringProperty())
    notes = JSONProperty()

    country = RelationshipTo(Country, "IS_FROM", cardinality=ZeroOrOne, model=StructuredRel)
    city = RelationshipTo(City, "LIVES_IN", model=StructuredRel)
    friends = RelationshipTo("Person", "FRIEND", model=FriendRel)


class Employee(Person):
    badge = StringProperty(required=True)
    boss = RelationshipTo("Person", "REPORTS_TO", cardinality=One)


class AsyncThing(AsyncStructuredNode):
    name = StringProperty(unique_index=True)


def labels_are_installed_twice():
    for _ in range(2):
        db.install_all_labels()
    names = {row["name"] for row in db.list_indexes()}
    assert "index_Person_age" in names, names
    constraints = {row["name"] for row in db.list_constraints()}
    assert {"constraint_unique_Person_name", "constraint_unique_Country_code"} <= constraints, constraints
    on_relationships = [row for row in db.list_indexes() if row["entityType"] == "RELATIONSHIP" and row["properties"]]
    assert any(row["properties"] == ["since"] for row in on_relationships), on_relationships


def nodes_are_saved_and_deleted():
    jim = Person(name="Jim", age=3, height=1.8, born=datetime.date(1990, 1, 2), tags=["a", "b"], notes={"x": [1]}).save()
    assert jim.element_id and len(jim.uid) == 32
    jim.age = 4
    jim.save()
    jim.refresh()
    assert (jim.age, jim.born, jim.tags, jim.notes) == (4, datetime.date(1990, 1, 2), ["a", "b"], {"x": [1]})
    assert Person.nodes.get(name="Jim") == jim
    gone = Person(name="Gone").save()
    gone.delete()
    assert Person.nodes.get_or_none(name="Gone") is None
    try:
        Person.nodes.get(name="Gone")
    except DoesNotExist:
        pass
    else:
        raise AssertionError("DoesNotExist was expected")


def duplicates_are_refused():
    try:
        Person(name="Jim").save()
    except UniqueProperty:
        return
    raise AssertionError("UniqueProperty was expected")


def relationships_are_connected():
    germany = Country(code="DE").save()
    jim = Person.nodes.get(name="Jim")
    anna = Person(name="Anna", age=30).save()
    jim.country.connect(germany)
    assert jim.country.is_connected(germany) and jim.country.single().code == "DE"
    assert [one.name for one in germany.inhabitants.all()] == ["Jim"]
    rel = jim.friends.connect(anna, {"met": "Paris"})
    assert rel.met == "Paris" and rel.start_node().name == "Jim" and rel.end_node().name == "Anna"
    assert jim.friends.relationship(anna).since.year == 2026
    assert [one.name for one in jim.friends.match(met="Paris")] == ["Anna"]
    berlin = City(name="Berlin").save()
    bonn = City(name="Bonn").save()
    jim.city.connect(berlin)
    jim.city.reconnect(berlin, bonn)
    assert [one.name for one in jim.city] == ["Bonn"]
    jim.city.disconnect_all()
    assert len(jim.city) == 0
    jim.city.connect(bonn)
    bonn.country.connect(germany)


def node_sets_are_filtered_and_ordered():
    Person.nodes.bulk_create(*({"name": f"P{n}", "age": n} for n in range(10)))
    assert len(Person.nodes.filter(age__gt=6, name__startswith="P")) == 3
    assert len(Person.nodes.filter(Q(name="P1") | Q(name="P2"))) == 2
    assert len(Person.nodes.filter(~Q(name__startswith="P"))) == 2
    assert len(Person.nodes.filter(name__in=["P1", "P3"]).exclude(age=1)) == 1
    assert len(Person.nodes.filter(name__icontains="an")) == 1
    assert len(Person.nodes.filter(name__regex="P[0-4]")) == 5
    assert len(Person.nodes.filter(height__isnull=False)) == 1
    names = [one.name for one in Person.nodes.filter(name__startswith="P").order_by("-age")[2:4]]
    assert names == ["P7", "P6"], names
    assert [row[0].name for row in Person.nodes.filter(friends__name="Anna")] == ["Jim"]
    assert len(Person.nodes.filter(**{"friends|met": "Paris"})) == 1
    assert bool(Person.nodes.filter(name="P1")) and Person.nodes.first(name="P1").age == 1


def traversals_fetch_related_nodes():
    rows = Person.nodes.traverse("friends").all()
    assert len(rows) == 1, rows
    person, friend, rel = rows[0]
    assert (person.name, friend.name, rel.met) == ("Jim", "Anna", "Paris")
    subgraph = Person.nodes.filter(name="Jim").traverse("city__country").resolve_subgraph()
    assert subgraph[0]._relations["city"]._relations["country"].code == "DE"
    optional = Person.nodes.filter(name="Anna").traverse(Path("country", optional=True)).all()
    assert len(optional) == 1
    collected = Country.nodes.traverse(Path(value="inhabitants", alias="people")).annotate(Collect("people")).all()
    assert len(collected) == 1


def batches_are_merged():
    rows = ({"name": "Jim", "age": 50}, {"name": "New", "age": 1})
    people = Person.nodes.bulk_create_or_update(*rows, merge_by={"keys": ["name"]})
    assert [one.age for one in people] == [50, 1]
    assert Person.nodes.get(name="Jim").age == 50
    same = Country.nodes.bulk_get_or_create({"code": "DE"}, {"code": "FR"})
    assert [one.code for one in same] == ["DE", "FR"] and len(Country.nodes) == 2


def inherited_models_keep_their_class():
    boss = Person.nodes.get(name="Anna")
    worker = Employee(name="Worker", badge="7").save()
    worker.boss.connect(boss)
    assert worker.labels() == ["Employee", "Person"] or set(worker.labels()) == {"Employee", "Person"}
    found = Person.nodes.get(name="Worker")
    assert type(found) is Employee and found.boss.single() == boss


def transactions_roll_back():
    try:
        with db.transaction:
            Person(name="Never").save()
            raise RuntimeError("roll back")
    except RuntimeError:
        pass
    assert Person.nodes.get_or_none(name="Never") is None
    with db.write_transaction:
        Person(name="Always").save()
    with db.read_transaction:
        assert Person.nodes.get(name="Always").age == 0

    @db.transaction
    def create():
        return Person(name="Decorated").save()

    assert create().element_id


def cypher_returns_objects():
    rows, columns = db.cypher_query(
        "MATCH (a:Person)-[r:FRIEND]->(b:Person) RETURN a, r, b, a.name AS name", resolve_objects=True
    )
    assert columns == ["a", "r", "b", "name"]
    person, rel, friend, name = rows[0]
    assert isinstance(person, Person) and isinstance(rel, FriendRel) and friend.name == "Anna" and name == "Jim"
    jim = Person.nodes.get(name="Jim")
    results, _ = jim.cypher("MATCH (a) WHERE elementId(a) = $self MATCH (a)-[:FRIEND]->(b) RETURN b")
    assert Person.inflate(results[0][0]).name == "Anna"
    rows, _ = db.cypher_query("MATCH p = (:Person)-[:FRIEND]->(:Person) RETURN p", resolve_objects=True)
    assert [one.name for one in rows[0][0].nodes] == ["Jim", "Anna"]


async def asynchronous_models_work():
    await adb.set_connection(url=ADDRESS)
    await AsyncThing(name="one").save()
    assert (await AsyncThing.nodes.get(name="one")).name == "one"
    assert len(await AsyncThing.nodes.all()) == 1
    await adb.close_connection()


def scripts_install_and_inspect():
    inspect = [sys.executable, "-m", "neomodel.scripts.neomodel_inspect_database", "--db", ADDRESS]
    done = subprocess.run(inspect, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-600:]
    assert "class Person(StructuredNode)" in done.stdout, done.stdout
    assert "FRIEND" in done.stdout, done.stdout


def database_is_cleared():
    db.clear_neo4j_database(clear_constraints=True, clear_indexes=True)
    assert db.cypher_query("MATCH (n) RETURN count(n)")[0][0][0] == 0
    assert db.list_constraints() == []
    db.install_labels(Person)
    db.remove_all_labels()


get_config().database_url = ADDRESS
run(
    "neomodel",
    [
        labels_are_installed_twice,
        nodes_are_saved_and_deleted,
        duplicates_are_refused,
        relationships_are_connected,
        node_sets_are_filtered_and_ordered,
        traversals_fetch_related_nodes,
        batches_are_merged,
        inherited_models_keep_their_class,
        transactions_roll_back,
        cypher_returns_objects,
        asynchronous_models_work,
        scripts_install_and_inspect,
        database_is_cleared,
    ],
)
