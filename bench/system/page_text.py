"""The words of docs/generated/accuracy-models.md."""
# ruff: noqa: E501  lines of tables

HEAD = """# How far times of models are from published ones

Written by `bench/system/page.py` from published rows of AWS's pages
(`bench/accuracy/models/rows.json` and `bench/system/rows.json` have them with their sources).
Errors are (estimate - published) / published. **Every row is judged by a fit that saw no row of its
architecture.** An architecture is one width and depth: all 13B Llamas are one, all 70B are one, and
7B, 8B and Mistral are one. Networks of images are left out by name.

| family | rows | answered by | median % | P90 % | target % | signed % | in P10 to P90 % | width % |
|---|---|---|---|---|---|---|---|---|
"""
TEXT = """
{missed}

{sources}**In sample and extrapolated.** The *forms* below were chosen with all rows in sight; their
constants were not. No constant is fitted for a single model. Times on Trainium2 and Trainium3 are
extrapolated: they use the same parts of a later core's peak, clock and DMA rate, with a spread of
30 % added in squares (17 % for prompts on Trainium2). Prompts have constants of their own there: attention as one kernel and the
time of a half, from [published halves of layers](accuracy-halves.md) on Trainium2. These rows have
no training time of Trainium2 and no time at all of Trainium3. The TTFT and the TPOT row of
Llama-3.2-1B on one core (neuronmm) take several times as long as reading the weights, which nothing
here explains: no fit sees them, the table counts them.

**Intervals.** P10 and P90 are the estimate divided and multiplied by one factor, which grows with
the distance of the question from the rows ([coverage](#coverage-of-p10-to-p90)). In this table each
row's is fitted without its architecture. Errors of one family are the same for all layers of a
plan, and do not average out. They are errors of whole passes, so the exchanges of a plan have the
errors of its layers; times of layers that a user measured have their own.

`trnsim plan collective` gives the time of a collective that the host starts, and inside a program,
where 37 us were fitted to decode rows of the first generation. The spread of latencies inside a
program is 35 %, of bytes 20 %, on later chips 36 %, as no slope of a named instance is published.
[Published times of collectives](accuracy-collectives.md) has each row and the host's start.

## Coverage of P10 to P90

Seven ways in which a new question differs from the rows, each left out in turn: an architecture, a
chip, batches above 8, lengths above 4,096, models above 30B, a publication (a page of tables), and
loads above 8 users. **Constants and intervals are fitted without what is left out, and judged on
it.** The score is the interval score of logarithms, width + 2 / 0.2 x miss, times 100: less is
better (Gneiting and Raftery, 2007). Beside the package's intervals stand those that it had before,
one factor of each family (85 % of the errors of other architectures; 30 % more in squares on a chip
without rows), and one relative width for all. "Judged" counts a row once for each cut.

| cut or family | rows | judged | inside % | width % | score | before: inside % | width % | score | one width: inside % | width % | score |
|---|---|---|---|---|---|---|---|---|---|---|---|
{coverage}

{worse}

Not judged: {unjudged}.

    sigma = factor x sqrt(own^2 + releases^2 + (scores x part of scores)^2 + core^2 + kind^2
            + (chip x part not read from memory)^2
            + batch^2 x doublings + length^2 x doublings + ranks^2 x doublings)

- own: errors of the family's rows where nothing is far. CLIP, CNNs, Perceivers and diffusion, of few
  rows and all on Inferentia2, share one.
- releases: figures of single releases about the median of all, of one training configuration (124
  figures, four fifths within 7.2 %). Measured. No answer is surer than that.
- scores: of a prompt, the part of the time that attention's scores take, which AWS's programs
  compute in two ways (below).
- core: a core or GPU of which the family has no rows. **Assumed**, 0.30, as before; A100 and B200,
  carried over to one another, are off by 0.25 to 0.48. Prompts on Trainium2 have 0.17 instead, as
  halves of layers are published. kind: a kind of model of which the family has no rows. **Assumed**,
  0.30.
- chip: another chip of a core with rows; of the part of the time that is not read from memory, since
  the memory's rate was measured.
- batch, length, ranks: doublings beyond the rows of the same chip. A variance grows in proportion to
  them, as in kriging with a linear variogram.
- factor: the conformal quantile of a family's scores, (n + 1) / n times the level of 80 % for n
  rows, drawn to that of all families by eight rows' worth, and at least 1.

The weights are chosen by quantile regression on the errors of rows left out in all these ways
(Romano, Patterson and Candes, 2019; Papadopoulos, Vovk and Gammerman, 2011, normalized scores; Vovk,
Gammerman and Shafer, 2005, Mondrian groups; Barber, Candes, Ramdas and Tibshirani, 2021, residuals
of cross-validation). Where a cut leaves no row that teaches a distance, it keeps its prior: 0.15 for
a chip, 0.12 for a doubling of the batch, 0.08 for one of the length or of the ranks. **The form, the priors and the
families that share a scale were chosen with all rows in sight**; rows of neuronmm are judged, and
seen by no fit. Servers have too few rows for weights: ports have 0.19, steps on GPUs 0.19 and all
other passes there 0.30, each with the distances above. Their rows above 8 users were seen by no
constant; those weights were chosen with them in sight.

| weight | fitted to all rows | in the package |
|---|---|---|
{scales}

### Cells

An answer is *validated* where its cell, a kind of model in a phase on a chip, has published rows and
its batch and length are within a doubling of theirs, its tensor ranks within one of the family's on
the chip. Elsewhere it is carried over from other cells, and says in what it differs. Errors are those
of architectures left out; of servers, those of publications left out
([servers](accuracy-serving.md)).

| kind | phase | chip | rows | median % | P90 % | batch | length | ranks |
|---|---|---|---|---|---|---|---|---|
{cells}

## By family and chip

The answer of the family, and its unscaled compiled program, on the rows that both have.

| family | chip | rows | answer: median / P90 % | signed % | inside % | width % | program: rows | median / P90 % | signed % | inside % | width % |
|---|---|---|---|---|---|---|---|---|---|---|---|
{chips}

## Which answer, and why

Two methods give the time of a pass: the few constants, and the compiled program, either unscaled or
times a residual that is fitted to published rows. **Each family has one answer, which all commands
use**: of the answers that have all its rows, the one with the least squared error (of logarithms)
on the rows that all of them have, each judged without its architecture. A program is compiled for
each question, so its error has to be less by a tenth. TTFT's residuals are fitted by sizes of
errors, as its few constants are, all others by squares.

| family | answer | rows | median % | P90 % | signed % | inside % | width % | root of mean square | fitted to all rows |
|---|---|---|---|---|---|---|---|---|---|
{ways}

{reasons}

## The few constants

    layer = max(products / (part x peak), weights / HBM rate) + KV passes x KV / HBM rate
            + elements x passes / Vector Engine rate + scores x a time
            + halves x (a fixed time + sequences x a time)

- HBM rate: 294 GB/s a core, the best of NKIBench's SiLU kernels, bytes read and written. Measured.
- KV: bytes of keys and values once for each *query* head of a rank, at the compiled bucket.
- Vector Engine: 128 lanes at its clock. Documented. Elements of norms, residuals, softmax,
  activations.
- Operators of CNNs, Perceivers and denoisers are read from their graphs, which
  `bench/system/network_operators.py` keeps (for networks that no command takes, the graphs of
  `bench/accuracy/models`). Products, weights and elements overlap: the longest of a layer counts. A
  call of a CNN or Perceiver takes a fixed time, which resnet34 and resnet101 share at batch 1; other
  rows are too long to tell it, so that it is drawn to none (one sigma 0.5 ms, assumed, beside errors
  of 0.2). A cast is no pass of elements, and products in FP32 (multimodal-perceiver alone was
  compiled without --auto-cast) take four times as long. Each network counts once. On 14 rows of 9
  networks, where the form was chosen, other forms were no better: constants of encoders, one after
  another, 24.0 / 81.4 %; a part of the peak and a time for each product 24.9 / 38.7; elements after
  products, without activations and softmax, 16.1 / 45.6. On 20 rows, 8 of them of denoisers, of the
  form that both had before: products, weights and elements one after another 19.4 / 49.6, the root
  of their squares 24.2 / 52.9.
- **Nothing is fitted to denoisers.** Their products reach the part of the peak that encoders' reach.
  Attention is apart: each score passes the Vector Engine twice (an exponential, and what it scales)
  at half the rate, as --auto-cast matmult leaves a softmax in FP32 (27.9 ps on Inferentia2), and its
  two products take no further time. A block, two attentions and an MLP, has three halves, each of
  which takes what a prompt's takes (169 us on Inferentia2, 52 on Trainium1). A step of Stable
  Diffusion 2.1 spends three fifths of its time in scores, one of SDXL a third, which no part of the
  peak can say: before, one was fitted, with a time of a call, as to CNNs: 22.8 / 42.3. With a softmax
  at the full rate, 20.6 / 41.2; with attention's products like all others, and no time of scores,
  38.9 / 52.8; without a time of halves, 20.8 / 50.3; with a time of an attention that is fitted,
  11.9 / 23.4, but 16.2 / 56.0 with pages left out, as one page alone tells it. Open: 2 Inpainting has
  the U-Net of 2.1 at as many pixels, and takes 1.41 times as long; PixArt's estimate is right at 256
  pixels and a third too short at 512.
- A pair of towers (CLIP) takes the sum of its two towers' times, times a factor that is fitted to
  its rows.
- Encoders and TPOT are fitted by least squares. TTFT and training are fitted by least sizes of
  errors, since some of their rows are off by a factor (two ways of attention; CLIP's training) and
  would dominate the squares. By squares TTFT has 20.5 / 54.4 % and training 9.1 / 31.4 %.
- Results of an encoder go to the host in float32 at 6 GB/s. Measured (xlm-roberta-base).
- Exchanges are those of the plan's links and are not fitted.

| constant | of | fitted to all rows | in the package |
|---|---|---|---|
{constants}

Fits without one architecture each:

| family | left out | rows | median % | signed median % | constants |
|---|---|---|---|---|---|
{folds}

## The compiled programs

`make accuracy` compiles the graph of each published row, from the published architectures at the
published shapes. `bench/accuracy/models/programs.json` keeps the results: device time, launches,
exchanges, bound and side.

**One constant of programs is fitted: {latency} us, the latency of a small all-reduce inside an
instance**, the same for every model and chip; the package has it for all exchanges. It was fitted
to 56 decode rows and their programs of an earlier compiler;
{today}.
In the tables the latency of each row is chosen on the rows of other architectures. The bytes of an
exchange are priced by the fabric's fastest algorithm: on the first generation at 56.7 GB/s, which
AWS's all-reduce of 1 GiB over two ranks shows (nccom-test.rst), on later ones at their links'
bandwidth.

**Bounds.** No estimate may be below its bound: products at the peak that follows from the clock,
each byte of weights, inputs and outputs once over the HBM stack's bandwidth (shared by the cores
that have it), exchanged bytes over the links. `model_bounds.py` checks that, and compares each
bound with an oracle that counts all of a graph's operations. Where a bound is below a third of the
published time, the row says why.

**What a row is.**

- A graph is that of one rank: layers are split over tensor-parallel ranks, with the exchanges
  between them (`architectures.json` has the sizes, from model cards and papers).
- A decode row is one step at the bucket of the median token: token-generation buckets are powers of
  two from 128 up to the sequence length, and attention's cost follows the bucket
  (transformers-neuronx-developer-guide.rst, Bucketing). A prefill row is one prompt at its bucket,
  with the scores of its last token. Of four prompts and more with 8,192 tokens together, one and
  two are compiled: each further one takes what the second adds.
- A number of heads that the ranks do not divide is padded with unused ones, as in
  transformers-neuronx.
- An image takes its text encoders, each step of the denoiser and the decoder of latents, one after
  another. A step's halves with and without the prompt run on two cores at once.
- A throughput row of images is the time of a core's pass: the batch and the number of cores over
  the throughput. NeuronPerf keeps two requests at each core there, so a published latency is that
  of two passes (neuronperf_benchmark_guide.rst, workers_per_model).
- A training row is one step of the optimizer: microbatches forward and backward, gradients added
  up over ranks, an update at the measured rate of the DMA engines.
- xlm-roberta-base returns scores of 250,002 words in float32 for each token: 128 MB a sequence. At
  the published throughput that is 6 GB/s to the host, on either chip and at either batch size, and
  40 times the time of roberta-base: those rows are times of the host's link, which a graph on the
  device does not have.
- Rows of tokens per second follow from a decode and a prefill row. They are kept in programs.json
  and not counted a second time.

**Two ways of attention.** Prompts of 2,048 tokens and more take either 60 to 150 ps a score, or 300
to 530. Neither chip, model, batch, length, ranks nor release predicts which: CodeLlama-13B with
4,096 tokens is of the first kind on Inf2 and of the second on Trn1, Llama-2-13B of the first for
one prompt and of the second for eight. AWS documents a kernel for more than 8k tokens
(transformers-neuronx-developer-guide.rst), and no row is longer. So the estimate uses one time
between the two, and its interval holds both. These alternatives were no better on rows left out:
elements fitted (22.0 / 51.3 %), norms and softmax apart (21.6 / 48.9), no time for each sequence
(26.2 / 46.5), and then products fitted (30.9 / 61.7) or exchanges (23.5 / 49.9).

## Measured times

A table of a user's own times overrides both, with the fields of
[measured times](user-files.md#measured-times-of-layers). `plan train`, `serve`, `infer` and `layer`
take it as `--measured FILE.csv`, and print the method of each phase. These are refused with line
and field: an illegal value, sizes that no layer of the model has, a row without `layer` where
several sizes are possible, a time below what the chip's published peak allows, a file of which no
row is used.

## Training

A configuration is compared with the median of the times that 23 releases of the SDK printed for it;
the column "releases" says how far these are apart. Where the printed DP does not fill the nodes,
the DP that fills them is used. Recomputation is that of the launch script.

- In decoders of Llama's kind attention is one kernel unless all of a layer is recomputed: an
  element of its softmax passes the Vector Engine once. NeuronX Distributed does so by default
  (`training_llama_tp_zero1.rst`, `training_llama_tp_pp.rst`). neuronx-nemo-megatron, whose scripts
  recompute everything, has no such kernel, nor has any GPT (`known_issues.rst`). The releases
  before 2.19 printed nearly the same figures without it, which nothing here explains.
- In all other models an element of a softmax takes twice the time of other elements: it is computed
  in FP32, and the Vector Engine combines two tensors of FP32 at half the rate of BF16 (ISA of SDK
  2.26).

Both were chosen with all rows in sight, from documented facts. With neither, training had 10.0 /
41.1 %; with the kernel alone 7.3 / 32.1 %; with the softmax fitted by itself, which one
architecture alone decides, 8.0 / 30.8 %; weights of 1.5, 3 and 4 for 2 give 5.8 / 27.9, 6.8 / 19.8
and 7.3 / 20.8 %. Reducing gradients after all computing, as in BERT's script, gives 7.2 / 21.0 %,
no better than hiding it. Three errors are unexplained: CLIP takes 2.6 times its estimate (as many
images a second as ViT, which computes 2.4 times as much for each); BERT on 16 nodes with two micro
batches a step; ViT in pure BF16, a quarter faster than with Autocast.

{trained_programs}

| configuration | published s | estimate s | P10 | P90 | error % | releases | repaired, or noted |
|---|---|---|---|---|---|---|---|
{training}

## Trainium2

Published times of whole models on it are drafted, mixed or of unstated length: {trn2_count} rows
can be priced, each with an assumption. They are in no table above, and no constant was fitted to
them. [Halves of layers](accuracy-halves.md) are published too.

| row | published ms | estimate ms | P10 | P90 | error % | program's error % | assumed |
|---|---|---|---|---|---|---|---|
{trn2}

## Row by row

The estimate is the family's answer. The program's column is its unscaled time in ms; the latency
column is the share of its exchanges' latencies in that time.

| row | model | family | chip | bound ms | by | published ms | estimate ms | P10 | P90 | error % | program ms | error % | latency % | says |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
{rows}

## Rows without an answer

| row | why |
|---|---|
{unanswered}

## Rows without a program

{refused_count} rows of `programs.json` have no time: a tensor of their program exceeds SBUF, or their
graph is too large to be compiled in the memory and the time of the machine that priced them.

| row | why |
|---|---|
{refused}
"""

REASONS = """- encoders and ViT: few constants, as the few constants err least in the median, at P90 and in
  squares, and no residual helps programs. For programs: with nothing fitted to encoders the error
  is 1 % in the median at 1024 x 24 (BERT-large); but it is +8 % at 768 x 12 and -22 % at 768 x 6,
  of either sign, which no residual corrects.
- CLIP: few constants x a factor, as a factor halves their error (root of mean square): a pair takes
  half as long again as its two towers, in the median of each architecture. For programs: the
  program knows that two towers are one program; but its errors range from -33 to +101 % in one
  architecture, so that no factor of the other one fits it.
- TPOT: few constants, as the few constants have six tenths of the program's error, and residuals
  fitted to some sizes make the others worse. For programs: the unscaled program has a median within
  two points with nothing fitted but the latency of an exchange, and knows the layout of caches.
- TTFT: few constants, as the few constants have the least P90, and in squares three quarters of the
  error of the best residual. For programs: with a factor of each chip programs have the least
  median; their errors at P90 are those of prompts that AWS's programs take in another way (two ways
  of attention, below).
- CNN and Perceiver: few constants, as programs with a factor and a time of a call have a tenth more
  error, a P90 ten points higher, and are compiled for each question, which takes seconds to minutes.
  For programs: they see how well a convolution fills the array, and their median is two points lower.
- diffusion: few constants, as they answer all rows; five have no program yet. For programs: with a
  factor, the three that have one (PixArt) are nearer, each judged by the other network.
- training: few constants, as fewer than ten rows are compiled, and the few constants err less on
  all. For programs: both of BERT-Large on one instance
  are within 7 % with nothing fitted."""
