import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;

/** Confluent's Java client against a registry: java RegistryClient.java URL SUBJECT */
public class RegistryClient {
    interface Call {
        Object run() throws Exception;
    }

    static void expect(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    static void refused(int code, Call call) throws Exception {
        try {
            Object found = call.run();
            throw new AssertionError("not refused: " + found);
        } catch (RestClientException error) {
            expect(code, error.getErrorCode());
        }
    }

    static AvroSchema user(String more) {
        return new AvroSchema(
            "{\"type\":\"record\",\"name\":\"User\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"}" + more + "]}");
    }

    public static void main(String[] given) throws Exception {
        String subject = given[1];
        CachedSchemaRegistryClient client = new CachedSchemaRegistryClient(given[0], 100);
        AvroSchema first = user("");
        AvroSchema second = user(",{\"name\":\"age\",\"type\":\"int\",\"default\":0}");
        AvroSchema third = user(",{\"name\":\"age\",\"type\":\"string\"}");
        refused(40401, () -> client.getLatestSchemaMetadata(subject));
        int id = client.register(subject, first);
        expect(id, client.register(subject, first));
        expect(1, client.getVersion(subject, first));
        client.reset();
        expect(first.canonicalString(), client.getSchemaById(id).canonicalString());
        expect(first.canonicalString(), client.getSchemaBySubjectAndId(subject, id).canonicalString());
        expect(true, client.testCompatibility(subject, second));
        expect(false, client.testCompatibility(subject, third));
        if (client.testCompatibilityVerbose(subject, third).isEmpty()) {
            throw new AssertionError("no reason");
        }
        refused(409, () -> client.register(subject, third));
        client.register(subject, second, true);
        expect(List.of(1, 2), client.getAllVersions(subject));
        expect(2, client.getLatestSchemaMetadata(subject).getVersion());
        expect("NONE", client.updateCompatibility(subject, "NONE"));
        expect("NONE", client.getCompatibility(subject));
        client.register(subject, third);
        AvroSchema users = new AvroSchema(
            "{\"type\":\"array\",\"items\":\"User\"}",
            List.of(new SchemaReference("User", subject, 1)),
            Map.of("User", first.canonicalString()),
            null);
        int usersId = client.register(subject + "s", users);
        client.reset();
        expect(1, client.getSchemaById(usersId).references().size());
        refused(42206, () -> client.deleteSchemaVersion(subject, "1"));
        expect("READONLY", client.setMode("READONLY", subject));
        expect("READONLY", client.getMode(subject));
        refused(42205, () -> client.deleteSubject(subject));
        expect("READWRITE", client.setMode("READWRITE", subject));
        client.deleteSubject(subject + "s");
        expect(List.of(1, 2, 3), client.deleteSubject(subject));
        expect(false, client.getAllSubjects().contains(subject));
        expect(List.of(1, 2, 3), client.deleteSubject(subject, true));
        System.out.println("all of it: " + ByteBuffer.allocate(4).putInt(id).getInt(0));
    }
}
