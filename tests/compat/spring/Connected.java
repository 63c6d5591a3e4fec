// How both configurations connect.

package spring;

import harness.Harness;
import org.neo4j.driver.AuthTokens;
import org.neo4j.driver.Driver;
import org.neo4j.driver.GraphDatabase;
import org.springframework.context.annotation.Bean;
import org.springframework.data.neo4j.config.AbstractNeo4jConfig;
import org.springframework.data.neo4j.core.DatabaseSelectionProvider;

public abstract class Connected extends AbstractNeo4jConfig {
    @Bean
    @Override
    public Driver driver() {
        return GraphDatabase.driver("bolt://" + Harness.BOLT, AuthTokens.basic(Harness.USER, Harness.PASSWORD));
    }

    @Bean
    @Override
    protected DatabaseSelectionProvider databaseSelectionProvider() {
        return DatabaseSelectionProvider.createStaticDatabaseSelectionProvider("people");
    }
}
