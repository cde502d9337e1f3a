"""Zero-cost proxies: what can be told of a network from a few passes through it at random weights, without training (torch).

A member of a space becomes a graph (:mod:`latcast.search.proxies.small_member`), the graph a differentiable function
(:mod:`latcast.search.proxies.torch_network`), and a proxy (:class:`latcast.search.proxies.proxy.Proxy`) a number of it. No proxy
is an accuracy: they rank networks, some spaces better than others, and none reliably better than the number of parameters
(White et al., "A deeper look at zero-cost proxies for lightweight NAS", ICLR blog track 2022).
"""
