"""Plans: serving, training, inference, fleets and published claims, over the times of `estimate`.

``serve`` runs requests through a server step by step, ``train`` searches layouts of a training
step, ``infer`` passes items through copies of a model, ``fleet`` shares instances by the hour, and
``claims`` checks published claims. Every answer is an interval and says what it is based on.
"""
