import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.CharArraySet;
import org.apache.lucene.analysis.LowerCaseFilter;
import org.apache.lucene.analysis.StopFilter;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.pattern.PatternTokenizer;
import org.apache.lucene.analysis.snowball.SnowballFilter;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.document.*;
import org.apache.lucene.index.*;
import org.apache.lucene.search.*;
import org.apache.lucene.search.similarities.*;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.util.BytesRef;

/**
 * What OpenSearch and Elasticsearch do with the files of `harp pack`, in the Lucene that they run on: indexes FOLDER/documents-*.ndjson
 * with the analysis, similarities and copies of FOLDER/index.json, and answers the queries of FOLDER/query.json for each line
 * {"qid", "QUERY", "VECTOR"} of a file: the best DEPTH of each query ("hits"), and their scores by words ("words").
 * java LuceneSearch.java FOLDER ASKED FOUND DEPTH. Cross-field queries are blended terms; a nested passage stands for its document.
 */
public class LuceneSearch {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        JsonNode index = JSON.readTree(folder.resolve("index.json").toFile());
        JsonNode settings = index.at("/settings/index"), fields = index.at("/mappings/properties");
        Analyzer analyzer = analyzer(settings.get("analysis"));
        Map<String, Similarity> similarities = new HashMap<>();
        settings.get("similarity").fields().forEachRemaining(entry -> similarities.put(entry.getKey(),
            new BM25Similarity(entry.getValue().get("k1").floatValue(), entry.getValue().get("b").floatValue())));
        Similarity similarity = new PerFieldSimilarityWrapper() {
            public Similarity get(String field) {
                return similarities.getOrDefault(fields.path(field).path("similarity").asText(), new BM25Similarity());
            }
        };
        try (FSDirectory directory = FSDirectory.open(Files.createTempDirectory("lucene"))) {
            IndexWriterConfig config = new IndexWriterConfig(analyzer).setSimilarity(similarity);
            try (IndexWriter writer = new IndexWriter(directory, config)) {
                add(folder, fields, writer);
                writer.forceMerge(1);
            }
            try (DirectoryReader reader = DirectoryReader.open(directory);
                    BufferedReader asked = Files.newBufferedReader(Path.of(args[1]));
                    PrintWriter hits = new PrintWriter(args[2], "UTF-8")) {
                IndexSearcher searcher = new IndexSearcher(reader);
                searcher.setSimilarity(similarity);
                JsonNode queries = JSON.readTree(folder.resolve("query.json").toFile()).get("queries");
                int depth = Integer.parseInt(args[3]);
                for (String line; (line = asked.readLine()) != null;) {
                    JsonNode one = JSON.readTree(line);
                    Map<String, Object> found = new LinkedHashMap<>(), scored = new LinkedHashMap<>();
                    Map<String, Query> byWords = new LinkedHashMap<>();
                    Set<BytesRef> ids = new HashSet<>();
                    for (Iterator<Map.Entry<String, JsonNode>> parts = queries.fields(); parts.hasNext();) {
                        Map.Entry<String, JsonNode> part = parts.next();
                        Map<String, Float> best;
                        if (part.getValue().has("nested")) {
                            best = nearest(searcher, one.get("VECTOR"), depth);
                        } else {
                            Query query = words(analyzer, part.getValue().get("multi_match"), one.get("QUERY").asText());
                            byWords.put(part.getKey(), query);
                            best = best(searcher, query, depth, depth);
                        }
                        found.put(part.getKey(), best);
                        best.keySet().forEach(id -> ids.add(new BytesRef(id)));
                    }
                    for (Map.Entry<String, Query> part : byWords.entrySet()) {
                        Query only = new BooleanQuery.Builder().add(part.getValue(), BooleanClause.Occur.MUST)
                            .add(new TermInSetQuery("id", ids), BooleanClause.Occur.FILTER).build();
                        scored.put(part.getKey(), best(searcher, only, ids.size() + 1, ids.size() + 1));
                    }
                    String qid = one.get("qid").asText();
                    hits.println(JSON.writeValueAsString(Map.of("qid", qid, "hits", found, "words", scored)));
                }
            }
        }
    }

    static Analyzer analyzer(JsonNode analysis) {
        String pattern = analysis.at("/tokenizer/words/pattern").asText();
        List<String> stop = new ArrayList<>();
        analysis.at("/filter/function_words/stopwords").forEach(word -> stop.add(word.asText()));
        CharArraySet left = new CharArraySet(stop, false);
        String language = analysis.at("/filter/stems/language").asText();
        return new Analyzer() {
            protected TokenStreamComponents createComponents(String field) {
                Tokenizer words = new PatternTokenizer(java.util.regex.Pattern.compile(pattern), 0);
                TokenStream stream = new StopFilter(new LowerCaseFilter(words), left);
                return new TokenStreamComponents(words, language.isEmpty() ? stream : new SnowballFilter(stream, language));
            }
        };
    }

    static void add(Path folder, JsonNode fields, IndexWriter writer) throws Exception {
        List<Path> files = Files.list(folder).filter(path -> path.toString().endsWith(".ndjson")).sorted().collect(Collectors.toList());
        for (Path file : files) {
            try (BufferedReader lines = Files.newBufferedReader(file)) {
                for (String action; (action = lines.readLine()) != null;) {
                    String id = JSON.readTree(action).at("/index/_id").asText();
                    JsonNode record = JSON.readTree(lines.readLine());
                    Document document = new Document();
                    document.add(new StringField("id", id, Field.Store.YES));
                    for (String name : List.of("title", "body", "anchor_text")) {
                        String copy = fields.get(name).path("copy_to").asText();
                        for (String field : copy.isEmpty() ? List.of(name) : List.of(name, copy)) {
                            document.add(new TextField(field, record.get(name).asText(), Field.Store.NO));
                        }
                    }
                    writer.addDocument(document);
                    for (JsonNode passage : record.get("passages")) {
                        Document nested = new Document();
                        nested.add(new StringField("id", id, Field.Store.YES));
                        nested.add(new KnnFloatVectorField("vector", floats(passage.get("vector")), VectorSimilarityFunction.COSINE));
                        writer.addDocument(nested);
                    }
                }
            }
        }
    }

    static Query words(Analyzer analyzer, JsonNode match, String text) throws Exception {
        BooleanQuery.Builder all = new BooleanQuery.Builder();
        float ties = match.get("tie_breaker").floatValue();
        try (TokenStream stream = analyzer.tokenStream("text", text)) {
            CharTermAttribute word = stream.addAttribute(CharTermAttribute.class);
            for (stream.reset(); stream.incrementToken();) {
                BlendedTermQuery.Builder term = new BlendedTermQuery.Builder();
                term.setRewriteMethod(new BlendedTermQuery.DisjunctionMaxRewrite(ties));
                match.get("fields").forEach(field -> term.add(new Term(field.asText(), word.toString())));
                all.add(term.build(), BooleanClause.Occur.SHOULD);
            }
            stream.end();
        }
        return all.build();
    }

    static Map<String, Float> nearest(IndexSearcher searcher, JsonNode vector, int size) throws Exception {
        int passages = 500;  // as many neighbours as the query searches
        return best(searcher, new KnnFloatVectorQuery("vector", floats(vector), passages), passages, size);
    }

    static Map<String, Float> best(IndexSearcher searcher, Query query, int hits, int size) throws Exception {
        Map<String, Float> found = new LinkedHashMap<>();
        for (ScoreDoc hit : searcher.search(query, hits).scoreDocs) {
            if (found.size() < size) {
                found.putIfAbsent(searcher.doc(hit.doc).get("id"), hit.score);
            }
        }
        return found;
    }

    static float[] floats(JsonNode values) {
        float[] found = new float[values.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = values.get(i).floatValue();
        }
        return found;
    }
}
