import io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import io.confluent.kafka.serializers.subject.RecordNameStrategy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Confluent's Java serializers on Apache Kafka's Java client:
 * java AvroSerializers.java BOOTSTRAP REGISTRY TOPIC
 *
 * The topic validates keys and values in full.
 */
public class AvroSerializers {
    interface Call {
        Object run() throws Exception;
    }

    static final Schema FIRST = user("");
    static final Schema SECOND = user(",{\"name\":\"age\",\"type\":\"int\",\"default\":7}");
    static final Schema THIRD = user(",{\"name\":\"age\",\"type\":\"string\"}");

    static String bootstrap;
    static String registry;
    static String topic;

    public static void main(String[] given) throws Exception {
        bootstrap = given[0];
        registry = given[1];
        topic = given[2];
        writeAndEvolve();
        readBoth();
        refuseWhatIsIncompatible();
        refuseWhatIsNotRegistered();
        useTheLatest();
        nameSubjectsByRecord();
        refuseABrokenPayload();
        System.out.println("all of it");
    }

    static void writeAndEvolve() throws Exception {
        try (KafkaProducer<Object, Object> producer = producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, "first", record(FIRST, "Ada"))).get();
            producer.send(new ProducerRecord<>(topic, "second", record(SECOND, "Grace"))).get();
        }
    }

    static void readBoth() {
        List<ConsumerRecord<Object, Object>> found = read();
        expect(2, found.size());
        expect("first", found.get(0).key());
        expect("{\"name\": \"Ada\"}", found.get(0).value().toString());
        expect("{\"name\": \"Grace\", \"age\": 30}", found.get(1).value().toString());
        KafkaAvroSerializer serializer = new KafkaAvroSerializer();
        serializer.configure(settings(Map.of()), false);
        KafkaAvroDeserializer deserializer = new KafkaAvroDeserializer();
        deserializer.configure(settings(Map.of()), false);
        byte[] old = serializer.serialize(topic, record(FIRST, "Ada"));
        expect("{\"name\": \"Ada\", \"age\": 7}", deserializer.deserialize(topic, old, SECOND).toString());
        byte[] unknown = old.clone();
        unknown[1] = 127;
        refused(40403, () -> deserializer.deserialize(topic, unknown));
    }

    static void refuseWhatIsIncompatible() {
        try (KafkaProducer<Object, Object> producer = producer(Map.of())) {
            refused(409, () -> producer.send(new ProducerRecord<>(topic, "third", record(THIRD, "x"))));
        }
    }

    static void refuseWhatIsNotRegistered() {
        try (KafkaProducer<Object, Object> producer = producer(Map.of("auto.register.schemas", false))) {
            refused(40403, () -> producer.send(new ProducerRecord<>(topic, "third", record(THIRD, "x"))));
        }
    }

    /** Nothing is registered: the subject has what the record needs. */
    static void useTheLatest() throws Exception {
        Map<String, Object> latest = Map.of("auto.register.schemas", false, "use.latest.version", true);
        try (KafkaProducer<Object, Object> producer = producer(latest)) {
            producer.send(new ProducerRecord<>(topic, "latest", record(SECOND, "Edsger"))).get();
        }
        expect(3, read().size());
    }

    static void nameSubjectsByRecord() {
        Map<String, Object> named = Map.of("value.subject.name.strategy", RecordNameStrategy.class.getName());
        KafkaAvroSerializer serializer = new KafkaAvroSerializer();
        serializer.configure(settings(named), false);
        KafkaAvroDeserializer deserializer = new KafkaAvroDeserializer();
        deserializer.configure(settings(named), false);
        byte[] written = serializer.serialize(topic, record(FIRST, "Ada"));
        expect("{\"name\": \"Ada\"}", deserializer.deserialize(topic, written).toString());
    }

    /** By the broker. */
    static void refuseABrokenPayload() throws Exception {
        KafkaAvroSerializer serializer = new KafkaAvroSerializer();
        serializer.configure(settings(Map.of()), false);
        byte[] broken = serializer.serialize(topic, record(FIRST, "Ada"));
        broken[5] = 100;
        Map<String, Object> plain = Map.of(
            "bootstrap.servers", bootstrap,
            "key.serializer", ByteArraySerializer.class,
            "value.serializer", ByteArraySerializer.class);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(plain)) {
            producer.send(new ProducerRecord<>(topic, broken)).get();
            throw new AssertionError("not refused");
        } catch (ExecutionException error) {
            expect(InvalidRecordException.class, error.getCause().getClass());
        }
    }

    static KafkaProducer<Object, Object> producer(Map<String, Object> more) {
        return new KafkaProducer<>(settings(more));
    }

    static List<ConsumerRecord<Object, Object>> read() {
        List<ConsumerRecord<Object, Object>> found = new ArrayList<>();
        try (KafkaConsumer<Object, Object> consumer = new KafkaConsumer<>(settings(Map.of()))) {
            TopicPartition place = new TopicPartition(topic, 0);
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long end = consumer.endOffsets(List.of(place)).get(place);
            while (consumer.position(place) < end) {
                consumer.poll(Duration.ofSeconds(1)).forEach(found::add);
            }
        }
        return found;
    }

    static Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> all = new HashMap<>();
        all.put("bootstrap.servers", bootstrap);
        all.put("schema.registry.url", registry);
        all.put("key.serializer", KafkaAvroSerializer.class);
        all.put("value.serializer", KafkaAvroSerializer.class);
        all.put("key.deserializer", KafkaAvroDeserializer.class);
        all.put("value.deserializer", KafkaAvroDeserializer.class);
        all.putAll(more);
        return all;
    }

    static Schema user(String more) {
        return new Schema.Parser().parse(
            "{\"type\":\"record\",\"name\":\"User\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"}" + more + "]}");
    }

    static GenericRecord record(Schema schema, String name) {
        GenericRecord made = new GenericData.Record(schema);
        made.put("name", name);
        if (schema == SECOND) {
            made.put("age", 30);
        } else if (schema == THIRD) {
            made.put("age", "thirty");
        }
        return made;
    }

    static void expect(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    static void refused(int code, Call call) {
        try {
            Object found = call.run();
            throw new AssertionError("not refused: " + found);
        } catch (SerializationException | InvalidConfigurationException error) {
            expect(code, ((RestClientException) error.getCause()).getErrorCode());
        } catch (AssertionError error) {
            throw error;
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }
}
